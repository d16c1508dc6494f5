"""Static sites under several names, each seed with other rules for them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from pipeline.generators.domains.web_service.commands import nginx, put_in, started, written
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_NAMES = ("orchard", "harbour", "quarry", "lantern", "meadow", "foundry", "tannery", "granary")
_WORDS = ("apples", "ropes", "granite", "oil", "clover", "iron", "leather", "barley", "tides", "bells", "kilns")

_CONF = """
user www-data;
pid /run/sites.pid;
events {}
http {
    include /etc/nginx/mime.types;
    access_log off;
    server {
        listen @PORT@ default_server;
        return 421;
    }
    server {
        listen @PORT@;
        server_name @FIRST@;
        root /srv/www/@FIRST@;
        @RULE@
    }
    server {
        listen @PORT@;
        server_name @SECOND@;
        root /srv/www/@SECOND@;
        @RULE@
    }
}
"""
_SERVER = """
import gzip, mimetypes, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOSTS = (@HOSTS@)
MOVED = dict(line.strip().split(",") for line in open("/work/moved.csv")) if os.path.exists("/work/moved.csv") else {}
RULE = "@RULE@"

class Site(BaseHTTPRequestHandler):
    def do_GET(self):
        host, path = self.headers["Host"].split(":")[0], self.path.split("?")[0]
        if host not in HOSTS:
            return self.give(421, "text/plain", b"other host")
        root = "/srv/www/" + host
        if path.endswith("/"):
            path += "index.html"
        file = root + path
        if RULE == "moved" and path in MOVED:
            return self.give(308, "text/plain", b"", {"Location": MOVED[path]})
        hidden = RULE == "squeezed" and any(part.startswith(".") for part in path.split("/"))
        if hidden or not os.path.isfile(file):
            page = root + "/missing.html"
            return self.give(404, "text/html", open(page, "rb").read() if RULE == "lost" else b"none")
        kind, body, more = mimetypes.guess_type(file)[0], open(file, "rb").read(), {}
        if RULE == "cached" and path.startswith("/assets/"):
            more["Cache-Control"] = "immutable, public, max-age=@AGE@"
        elif RULE == "cached":
            more["Cache-Control"] = "no-cache"
        zipped = "gzip" in self.headers.get("Accept-Encoding", "") and kind in ("text/css", "text/html")
        if RULE == "squeezed" and zipped and len(body) >= 1000:
            body, more = gzip.compress(body), {"Content-Encoding": "gzip"}
        self.give(200, kind, body, more)

    def give(self, status, kind, body, more={}):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **more}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

ThreadingHTTPServer(("0.0.0.0", @PORT@), Site).serve_forever()
"""
_VERIFIER = """
import gzip
import http.client
from urllib.parse import urlsplit

PORT = __PORT__
PAGES = __PAGES__
RULES = __RULES__


def ask(host, target, headers):
    line = http.client.HTTPConnection("127.0.0.1", PORT, timeout=3)
    try:
        line.request("GET", target, headers={"Host": host, **headers})
        answer = line.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        line.close()


def directives(headers):
    given = ",".join(headers.get_all("Cache-Control") or [])
    return sorted(part.strip().lower() for part in given.split(",") if part.strip())


def test_each_name_has_its_own_pages():
    for host, target, kind, body in PAGES:
        status, headers, got = ask(host, target, {"Accept-Encoding": "identity"})
        assert (status, got.decode()) == (200, body), (host, target)
        assert headers.get_content_type() == kind, (host, target)
    assert len({ask(host, "/", {})[2] for host, *_ in PAGES}) == 2


def test_other_names_are_misdirected():
    assert [ask(name, "/", {})[0] for name in ("127.0.0.1", "else.example", "www." + PAGES[0][0])] == [421, 421, 421]


def test_the_rules_of_the_sites_hold():
    assert RULES
    for host, target, sent, status, wanted, body in RULES:
        got, headers, content = ask(host, target, sent)
        assert got == status, (host, target, got)
        if "cache" in wanted:
            assert directives(headers) == wanted["cache"], (host, target)
        if "coding" in wanted:
            assert headers.get("Content-Encoding") == wanted["coding"], (host, target)
        if "to" in wanted:
            found = urlsplit(headers["Location"])
            assert found.path == wanted["to"] and found.hostname in (None, host), headers["Location"]
        if headers.get("Content-Encoding") == "gzip":
            content = gzip.decompress(content)
        if body is not None:
            assert content.decode() == body, (host, target)
"""


@dataclass(frozen=True)
class _Rule:
    """What is asked of both sites beyond their pages."""

    name: str
    wish: str
    conf: str
    """Lines of nginx for each site."""
    half: str
    """The usual mistake in them."""
    exchanges: list[tuple[object, ...]]
    """Host, target, headers sent, status, what the headers say, body where it matters."""
    difficulty: Literal["easy", "medium", "hard"] = "medium"


def _page(rng: random.Random, host: str, title: str, lines: int) -> str:
    body = "\n".join(f"<p>{title}: {' '.join(rng.sample(_WORDS, 4))}.</p>" for _ in range(lines))
    return f"<!doctype html>\n<title>{host}</title>\n{body}\n"


def _site(rng: random.Random, host: str) -> dict[str, tuple[str, str]]:
    """Path below the root -> media type and text."""
    sheet = "".join(f".{word} {{ color: #{rng.randrange(1 << 24):06x}; margin: 0 }}\n" for word in _WORDS * 4)
    return {
        "/index.html": ("text/html", _page(rng, host, "Welcome", 3)),
        "/about.html": ("text/html", _page(rng, host, "About", 40)),
        "/assets/main.css": ("text/css", sheet),
        "/assets/tiny.css": ("text/css", ".tiny { margin: 1px }\n"),
        "/missing.html": ("text/html", _page(rng, host, "Nothing here", 2)),
        "/.deploy": ("", f"token {rng.randrange(1 << 40):x}\n"),
    }


def _rule(
    seed: int, rng: random.Random, sites: dict[str, dict[str, tuple[str, str]]], age: int, moves: list[tuple[str, str]]
) -> _Rule:
    first, second = sites
    if seed % 4 == 0:
        return _Rule(
            name="lost",
            wish="An address that does not exist has to give status 404 with the content of that site's own "
            "missing.html as its body.",
            conf="error_page 404 /missing.html;",
            half="error_page 404 =200 /missing.html;",
            exchanges=[(h, "/no/such/page", {}, 404, {}, sites[h]["/missing.html"][1]) for h in sites],
            difficulty="easy",
        )
    if seed % 4 == 1:
        kept, fresh = ["immutable", f"max-age={age}", "public"], ["no-cache"]
        return _Rule(
            name="cached",
            wish=f"Whatever lies under /assets/ is fingerprinted, so send it with a Cache-Control of exactly public, "
            f"max-age={age} and immutable (in any order); every other page that is found gets exactly no-cache. "
            "An address that does not exist stays a 404.",
            conf=f"location / {{ add_header Cache-Control no-cache; }}\n        location /assets/ {{ add_header "
            f'Cache-Control "public, max-age={age}, immutable"; }}',
            half=f'add_header Cache-Control "public, max-age={age}, immutable";',
            exchanges=[
                *((h, "/assets/tiny.css", {}, 200, {"cache": kept}, None) for h in sites),
                *((h, "/about.html", {}, 200, {"cache": fresh}, None) for h in sites),
                (first, "/", {}, 200, {"cache": fresh}, sites[first]["/index.html"][1]),
                (second, "/assets/none.css", {}, 404, {}, None),
            ],
        )
    if seed % 4 == 2:
        big = {"Accept-Encoding": "gzip"}
        return _Rule(
            name="squeezed",
            wish="Clients that accept gzip get HTML and CSS files of 1000 bytes or more compressed with it, smaller "
            "files never; clients that do not accept it get plain bytes. Files and folders whose name begins with a "
            "dot must look as if they did not exist (404).",
            conf="gzip on;\n        gzip_min_length 1000;\n        gzip_types text/css;\n"
            "        location ~ /\\. { return 404; }",
            half="gzip on;\n        gzip_min_length 1000;\n        location ~ /\\. { return 404; }",
            exchanges=[
                *(
                    (h, "/assets/main.css", big, 200, {"coding": "gzip"}, sites[h]["/assets/main.css"][1])
                    for h in sites
                ),
                (first, "/about.html", big, 200, {"coding": "gzip"}, sites[first]["/about.html"][1]),
                (second, "/assets/tiny.css", big, 200, {"coding": None}, None),
                (second, "/assets/main.css", {"Accept-Encoding": "identity"}, 200, {"coding": None}, None),
                *((h, "/.deploy", {}, 404, {}, None) for h in sites),
            ],
        )
    return _Rule(
        name="moved",
        wish="Old addresses are listed in /work/moved.csv (old path,new path; no header, a few hundred lines). Both "
        "sites have to redirect each of them permanently, in the way that keeps the method of the request (308), "
        "to the new path on the same name; the Location may be relative or absolute. Paths that are not listed must "
        "not be redirected.",
        conf="include /work/moved.conf;",
        half="location /old/ { return 308 /about.html; }",
        exchanges=[
            *((h, old, {}, 308, {"to": new}, None) for h in sites for old, new in rng.sample(moves, 5)),
            (first, moves[0][0] + "x", {}, 404, {}, None),
            (second, "/old/", {}, 404, {}, None),
        ],
        difficulty="hard",
    )


def _moves(rng: random.Random) -> list[tuple[str, str]]:
    numbers = rng.sample(range(1000, 9999), 240)
    return [(f"/old/{rng.choice(_WORDS)}-{n}", f"/{rng.choice(_WORDS)}/{n % 97}/{n}") for n in numbers]


def static_site(seed: int, context: Context) -> Draft:
    rng = chance("web_service", "static_site", seed)
    first, second = (f"{name}.example" for name in rng.sample(_NAMES, 2))
    port, age = rng.randint(8081, 8999), rng.choice((86400, 604800, 2592000))
    sites = {host: _site(rng, host) for host in (first, second)}
    moves = _moves(rng)
    rule = _rule(seed, rng, sites, age, moves)
    files = [TaskFile(path=f"/srv/www/{h}{path}", text=text) for h in sites for path, (_, text) in sites[h].items()]
    prepare: list[str] = []
    if rule.name == "moved":
        files.append(TaskFile(path="/work/moved.csv", text="".join(f"{old},{new}\n" for old, new in moves)))
        convert = 'awk -F, \'{print "location = " $1 " { return 308 " $2 "; }"}\' /work/moved.csv > /work/moved.conf'
        prepare.append(convert)
    values = {"port": port, "first": first, "second": second}

    def serving(rule_text: str, conf: str = _CONF, **other: object) -> tuple[str, ...]:
        text = put_in(conf, **{**values, "rule": rule_text, **other})
        return (*prepare, written("/work/sites.conf", text), nginx("/work/sites.conf", port))

    own = put_in(_SERVER, hosts=f'"{first}", "{second}"', rule=rule.name, age=age, port=port)
    return Draft(
        family="static_site",
        seed=seed,
        difficulty=rule.difficulty,
        instruction=f"I keep two static sites on this machine, {first} and {second}; their files are in "
        f"/srv/www/{first} and /srv/www/{second}. Put them online on port {port} of 127.0.0.1, told apart by the Host "
        "header, and leave the server running. A folder shows its index.html, and files go out under the media type "
        f"that fits their suffix. A request for any other host name is answered with status 421. {rule.wish} Don't "
        "touch the files of the sites. nginx is installed, but I don't mind which server you use.",
        files=tuple(files),
        solution=serving(rule.conf),
        right=(
            Variant(
                name="own_server", commands=(written("/work/serve.py", own), started("python3 /work/serve.py", port))
            ),
        ),
        weak=(
            Variant(name="usual_mistake", commands=serving(rule.half)),
            Variant(name="without_the_rule", commands=serving("")),
            Variant(
                name="same_site_twice",
                commands=serving(
                    rule.conf, second=second, first=first, conf=_CONF.replace("/srv/www/@SECOND@", "/srv/www/@FIRST@")
                ),
            ),
            Variant(name="never_started", commands=serving(rule.conf)[:-1]),
            Variant(
                name="any_host",
                commands=serving(rule.conf, conf=_CONF.replace("return 421;", f"root /srv/www/{first};")),
            ),
        ),
        verifier=filled(
            _VERIFIER,
            port=port,
            pages=[
                (host, path, kind, text)
                for host, pages in sites.items()
                for path, (kind, text) in pages.items()
                if path in ("/index.html", "/assets/tiny.css")
            ],
            rules=rule.exchanges,
        ),
        state_scope="live",
    )
