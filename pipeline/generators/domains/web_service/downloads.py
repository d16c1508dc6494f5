"""A download server whose media types come from a given table; each seed adds a part of HTTP to it."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Literal

from pipeline.generators.domains.web_service.commands import nginx, put_in, started, written
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_NGINX = """
user www-data;
pid /run/files.pid;
events {}
http {
    access_log off;
    include /work/types.conf;
    types_hash_max_size 8192;
    types_hash_bucket_size 256;
    default_type application/octet-stream;
    server {
        listen @PORT@;
        root @FOLDER@;
        @MORE@
    }
}
"""
_TYPES = (
    "(echo 'types {'; jq -r 'to_entries[] | select(.value.extensions) | .key + \" \" + (.value.extensions | "
    'join(" ")) + ";"\' /work/mime.json; echo \'}\') > /work/types.conf'
)
_FLASK = """
import hashlib, json, os, re
from flask import Flask, Response, request

FOLDER = "@FOLDER@"
TYPES = {end: kind for kind, about in json.load(open("/work/mime.json")).items() for end in about.get("extensions", [])}
NAME = re.compile(r"[A-Za-z0-9_-]+(\\\\.[A-Za-z0-9]+)*")
app = Flask(__name__)

def kind_of(name):
    end = name.rpartition(".")[2] if "." in name else ""
    return TYPES.get(end.lower(), "application/octet-stream")

@app.get("/<name>")
def sent(name):
    path = os.path.join(FOLDER, name)
    if not NAME.fullmatch(name) or not os.path.isfile(path):
        return Response("none", 404)
    body = open(path, "rb").read()
    answer = Response(body, content_type=kind_of(name))
    @GET@
    return answer

@MORE@

app.run("127.0.0.1", @PORT@)
"""
_VERIFIER = """
import hashlib
from http.client import HTTPConnection

FILES = __FILES__
KINDS = __KINDS__


def fetch(method, path, body=None, **headers):
    connection = HTTPConnection("127.0.0.1", __PORT__, timeout=3)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, response.read(), response.headers
    finally:
        connection.close()


def test_files_go_out_whole_under_their_type():
    got = {name: fetch("GET", f"/{name}") for name in FILES}
    assert {name: (status, body.decode()) for name, (status, body, _) in got.items()} == {
        name: (200, text) for name, text in FILES.items()
    }
    assert {name: headers.get_content_type() for name, (*_, headers) in got.items()} == KINDS
    assert [fetch("GET", path)[0] for path in ("/none.txt", "/" + next(iter(FILES)) + "x")] == [404, 404]

"""


@dataclass(frozen=True)
class _Part:
    """What a seed adds."""

    difficulty: Literal["easy", "medium", "hard"]
    wish: str
    tests: str
    get: str
    """Lines of Flask in the answer to GET."""
    more: str
    weak: dict[str, tuple[str, str]]
    """Changes to the Flask program."""
    by_nginx: bool


_PLAIN = _Part(
    difficulty="easy",
    wish="Browsers must not guess: every file that is found goes out with X-Content-Type-Options: nosniff.",
    tests="""
def test_browsers_do_not_guess():
    assert {fetch("GET", f"/{name}")[2]["X-Content-Type-Options"] for name in FILES} == {"nosniff"}
""",
    get='answer.headers["X-Content-Type-Options"] = "nosniff"',
    more="",
    weak={"guessing": ('answer.headers["X-Content-Type-Options"] = "nosniff"', "")},
    by_nginx=True,
)
_RANGES = _Part(
    difficulty="medium",
    wish="Downloads must be resumable: a Range of bytes (a-b, a-, -n, where an end behind the file counts as the "
    "file's end) gives 206 with that part and the right Content-Range; one that begins behind the end gives 416 with "
    "Content-Range: bytes */SIZE. Full answers say Accept-Ranges: bytes. HEAD has the same headers as "
    "GET, Content-Length included.",
    tests="""
def test_parts_can_be_had():
    name, text = max(FILES.items(), key=lambda item: len(item[1]))
    data, size = text.encode(), len(text.encode())
    wishes = {"0-0": (0, 1), "5-20": (5, 21), f"{size - 4}-": (size - 4, size), "-7": (size - 7, size),
              f"10-{size + 50}": (10, size)}
    for wish, (first, end) in wishes.items():
        status, body, headers = fetch("GET", f"/{name}", Range=f"bytes={wish}")
        assert (status, body) == (206, data[first:end]), wish
        assert headers["Content-Range"] == f"bytes {first}-{end - 1}/{size}", wish
    status, _, headers = fetch("GET", f"/{name}", Range=f"bytes={size}-")
    assert (status, headers["Content-Range"]) == (416, f"bytes */{size}")


def test_head_tells_what_get_would():
    seen = {name: fetch("HEAD", f"/{name}") for name in FILES}
    assert {name: (status, body, int(headers["Content-Length"])) for name, (status, body, headers) in seen.items()} == {
        name: (200, b"", len(text.encode())) for name, text in FILES.items()
    }
    assert {headers["Accept-Ranges"] for *_, headers in seen.values()} == {"bytes"}
""",
    get='answer.headers["Accept-Ranges"] = "bytes"\n    answer.make_conditional(request, accept_ranges=True, '
    "complete_length=len(body))",
    more="",
    weak={
        "whole_file": ("answer.make_conditional(request, accept_ranges=True, complete_length=len(body))", "pass"),
        "size_unknown": ("complete_length=len(body)", "complete_length=len(body) + 1"),
    },
    by_nginx=True,
)
_TAGS = _Part(
    difficulty="medium",
    wish='Caches must be able to ask again: every file has the strong ETag "H" where H is the first 16 digits of the '
    "SHA-256 of its content in lower-case hex, and a GET whose If-None-Match lists that tag "
    '(among others, or as W/"H"), '
    "or is *, gives 304 with the ETag and without a body. Other tags give the file. A POST to /NAME appends its body "
    "to that file and gives 204 with the new ETag, but only with an If-Match of the present tag: 412 for another one "
    "and 428 without any; 404 if there is no such file.",
    tests="""
def tag(text):
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:16]}"'


def test_tags_save_transfers():
    for name, text in FILES.items():
        headers = fetch("GET", f"/{name}")[2]
        assert headers["ETag"] == tag(text), name
    wishes = (tag(text), f'"a", {tag(text)}', f"W/{tag(text)}", "*")
    kept = [fetch("GET", f"/{name}", If_None_Match=wish) for wish in wishes]
    assert [(status, body, headers["ETag"]) for status, body, headers in kept] == [(304, b"", tag(text))] * 4
    assert fetch("GET", f"/{name}", If_None_Match='"0000", "1"')[:2] == (200, text.encode())


def test_appending_needs_the_present_tag():
    path, text = "/__JOURNAL__", fetch("GET", "/__JOURNAL__")[1].decode()
    assert [fetch("POST", path, b"x")[0], fetch("POST", path, b"x", If_Match='"00"')[0]] == [428, 412]
    status, _, headers = fetch("POST", path, "më\\n".encode(), If_Match=tag(text))
    assert (status, headers["ETag"]) == (204, tag(text + "më\\n"))
    assert fetch("POST", path, b"x", If_Match=tag(text))[0] == 412
    assert fetch("GET", path)[1].decode() == text + "më\\n" and fetch("POST", "/none.txt", b"", If_Match="*")[0] == 404
""",
    get="answer.set_etag(hashlib.sha256(body).hexdigest()[:16])\n    answer.make_conditional(request)",
    more="""@app.post("/<name>")
def longer(name):
    path = os.path.join(FOLDER, name)
    if not os.path.isfile(path):
        return Response("none", 404)
    if "If-Match" not in request.headers:
        return Response("which?", 428)
    if not request.if_match.contains(hashlib.sha256(open(path, "rb").read()).hexdigest()[:16]):
        return Response("changed", 412)
    with open(path, "ab") as file:
        file.write(request.get_data())
    answer = Response(status=204)
    answer.set_etag(hashlib.sha256(open(path, "rb").read()).hexdigest()[:16])
    return answer""",
    weak={
        "weak_tags": ("hexdigest()[:16])\n    answer.make", "hexdigest()[:16], weak=True)\n    answer.make"),
        "never_304": ("answer.make_conditional(request)", "pass"),
        "tag_of_the_name": ("answer.set_etag(hashlib.sha256(body)", "answer.set_etag(hashlib.sha256(name.encode())"),
        "no_precondition": ('if "If-Match" not in request.headers:', "if False:"),
    },
    by_nginx=False,
)
_UPLOADS = _Part(
    difficulty="hard",
    wish="Colleagues upload there too. PUT /NAME stores the body: 201 for a new file, 204 for one that is replaced. "
    "The name has to consist of letters, digits, _ and - with suffixes after dots (no leading dot, no empty part), "
    "otherwise 400; a suffix (the part after the last dot, in lower case) that the table does not know gives 415, as "
    "does a name without one. A Content-Type that is not the table's type for the suffix (parameters aside) gives 409; "
    "without Content-Type anything goes. DELETE gives 204, 404 if there was none. More than 100000 bytes: 413. "
    "What is refused changes nothing.",
    tests="""
def test_uploads_are_stored_replaced_and_removed():
    path, kind = "/probe-__NEW__", KINDS["__OLD__"]
    fetch("DELETE", path)
    steps = [fetch("PUT", path, b"one", Content_Type=kind)[0], fetch("GET", path)[1], fetch("PUT", path, b"two")[0],
             fetch("GET", path)[1], fetch("PUT", path, b"", Content_Type=kind + "; charset=utf-8")[0],
             fetch("GET", path)[2].get_content_type(), fetch("DELETE", path)[0], fetch("DELETE", path)[0],
             fetch("GET", path)[0]]
    assert steps == [201, b"one", 204, b"two", 204, kind, 204, 404, 404]


def test_refused_uploads_change_nothing():
    name, text = next(item for item in FILES.items() if item[0] == "__OLD__")
    wrong = {"/.hidden.__END__": 400, "/a..__END__": 400, "/a%20b.__END__": 400, "/a.zzqq": 415, "/plain": 415}
    assert {path: fetch("PUT", path, b"x")[0] for path in wrong} == wrong
    assert fetch("PUT", f"/{name}", b"x", Content_Type="application/x-other")[0] == 409
    assert fetch("PUT", f"/{name}", b"x" * 100001)[0] == 413 and fetch("GET", f"/{name}")[1].decode() == text
    large = bytes(range(250)) * 400
    assert fetch("PUT", "/probe-large.__END__", large)[0] in (201, 204)
    assert fetch("GET", "/probe-large.__END__")[1] == large and fetch("DELETE", "/probe-large.__END__")[0] == 204
    assert [fetch("GET", path)[0] for path in ("/a.zzqq", "/plain", "/a%20b.__END__")] == [404] * 3
""",
    get="",
    more="""@app.put("/<name>")
def stored(name):
    end = name.rpartition(".")[2].lower() if "." in name else ""
    if not NAME.fullmatch(name):
        return Response("name", 400)
    if end not in TYPES:
        return Response("suffix", 415)
    if request.mimetype and request.mimetype != TYPES[end]:
        return Response("type", 409)
    body = request.get_data()
    if len(body) > 100000:
        return Response("size", 413)
    path = os.path.join(FOLDER, name)
    new = not os.path.exists(path)
    with open(path, "wb") as file:
        file.write(body)
    return Response(status=201 if new else 204)

@app.delete("/<name>")
def removed(name):
    path = os.path.join(FOLDER, name)
    if not NAME.fullmatch(name) or not os.path.isfile(path):
        return Response("none", 404)
    os.remove(path)
    return Response(status=204)""",
    weak={
        "always_created": ("201 if new else 204", "201"),
        "any_type": ("if request.mimetype and request.mimetype != TYPES[end]:", "if False:"),
        "parameters_count": ("request.mimetype != TYPES[end]", 'request.headers["Content-Type"] != TYPES[end]'),
        "no_limit": ("len(body) > 100000", "len(body) > 10**7"),
        "any_suffix": ("if end not in TYPES:", "if not end:"),
    },
    by_nginx=False,
)
_WORDS = ("amber", "basin", "cobalt", "dune", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "lagoon")


def _files(rng: random.Random, kinds: dict[str, str], folder: str) -> dict[str, str]:
    ends = rng.sample(sorted(end for end in kinds if end.isalnum() and end.isascii() and 2 <= len(end) <= 6), 9)
    names = [f"{word}.{end}" for word, end in zip(rng.sample(_WORDS, 9), ends, strict=True)]
    names[3] = names[3].rpartition(".")[0] + "." + ends[3].upper()
    names[4] = names[4].replace(".", ".old.")
    return {
        name: " ".join(rng.choice(_WORDS) for _ in range(rng.randint(8, 90))) + f" – {name}\n"
        for name in [*names, "NOTES", "extra.zzqq"]
    }


def downloads(seed: int, context: Context) -> Draft:
    rng = chance("web_service", "downloads", seed)
    part = (_PLAIN, _RANGES, _TAGS, _UPLOADS)[seed % 4]
    table = context.text("mime_db/db.json")
    owners: dict[str, list[str]] = {}
    for kind, about in json.loads(table).items():
        for end in about.get("extensions", ()):
            owners.setdefault(end, []).append(kind)
    single = {end: found[0] for end, found in owners.items() if len(found) == 1}
    port, folder = rng.randint(8100, 8999), rng.choice(("/srv/files", "/srv/downloads", "/data/public"))
    files = _files(rng, single, folder)
    kinds = {name: single.get(name.rpartition(".")[2].lower(), "application/octet-stream") for name in files}
    values = {"port": port, "folder": folder}
    flask = put_in(_FLASK, **values, get=part.get, more=part.more).replace("\\\\", "\\")
    start = started("python3 /work/files.py", port)
    by_flask = (written("/work/files.py", flask), start)
    more = "add_header X-Content-Type-Options nosniff;" if part is _PLAIN else ""
    by_nginx = (
        _TYPES,
        written("/work/files.conf", put_in(_NGINX, **values, more=more)),
        nginx("/work/files.conf", port),
    )
    usual = tuple(c.replace("/work/types.conf;", "/etc/nginx/mime.types;") for c in by_nginx)
    first = next(iter(files))
    cgi = (written("/work/files.py", flask.replace('app.run("127.0.0.1"', 'app.run("0.0.0.0"')), start)
    slips = {
        **part.weak,
        "case_counts": ("TYPES.get(end.lower(),", "TYPES.get(end,"),
        "text_by_default": ('"application/octet-stream"', '"text/plain"'),
        "first_dot": ('end = name.rpartition(".")[2]', 'end = name.partition(".")[2]'),
    }
    return Draft(
        family="downloads",
        seed=seed,
        difficulty=part.difficulty,
        instruction=f"Put the files of {folder} online at http://127.0.0.1:{port}/NAME (no subfolders, no listing, 404 "
        "for what is not there). The media type of a file comes from /work/mime.json, a table from types to what is "
        "known of them, among it their `extensions`: the part of the name behind its last dot decides, in lower case; "
        "files without such a part, or with one that the table doesn't have, are application/octet-stream. Where "
        f"several types claim a suffix any of them will do; charset parameters don't matter. {part.wish} nginx, Flask, "
        "Node and PHP are installed; leave the server running.",
        files=(
            *(TaskFile(path=f"{folder}/{name}", text=text) for name, text in files.items()),
            TaskFile(path="/work/mime.json", text=table),
        ),
        solution=by_nginx if part.by_nginx else by_flask,
        right=(Variant(name="another_server", commands=by_flask if part.by_nginx else cgi),),
        weak=(
            *(
                Variant(name=name, commands=(written("/work/files.py", flask.replace(*slip)), start))
                for name, slip in slips.items()
            ),
            Variant(name="usual_types", commands=usual[1:]),
        ),
        verifier=filled(
            (_VERIFIER + part.tests)
            .replace("__JOURNAL__", "extra.zzqq")
            .replace("__NEW__", first)
            .replace("__OLD__", first)
            .replace("__END__", first.rpartition(".")[2]),
            files={name: text for name, text in files.items() if part is not _TAGS or name != "extra.zzqq"},
            kinds={name: kind for name, kind in kinds.items() if part is not _TAGS or name != "extra.zzqq"},
            port=port,
        ),
        state_scope="live",
        contexts=("mime_db",),
    )
