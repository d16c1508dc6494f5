"""A portal behind TLS: certificates are made, served and checked by the handshake of a client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipeline.generators.domains.web_service.commands import answering, nginx, put_in, written
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_HEAD = """
user www-data;
pid /run/portal.pid;
events {}
http {
    types { text/html html; }
    access_log off;
    @MAP@
    server {
        listen @PLAIN@;
        return @CODE@ https://$host:@SECURE@$request_uri;
    }
"""
_FRONT = """
    server {
        listen @SECURE@ ssl;
        server_name @NAME@;
        ssl_certificate /work/tls/@FILE@.pem;
        ssl_certificate_key /work/tls/@FILE@.key;
        @MORE@
        root /srv/portal/@FOLDER@;
    }
"""
_HAPROXY = """
global
    daemon
defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
frontend plain
    bind :@PLAIN@
    http-request redirect code @CODE@ location https://%[req.hdr(host),field(1,:)]:@SECURE@%[capture.req.uri]
frontend secure
    bind :@SECURE@ ssl crt /work/tls/both/ @BIND@
    @RETURNS@
"""
_VERIFIER = """
import http.client
import socket
import ssl

PLAIN, SECURE = __PORTS__
NAMES = __NAMES__
PAGES = __PAGES__
YEARS_S = 3650 * 86400


def dial(box, name, most=None, pair=None):
    context = ssl.create_default_context(cadata=box.text("/work/tls/trust.pem"))
    if most:
        context.maximum_version = most
    if pair:
        context.load_cert_chain(*pair)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", SECURE), timeout=3), server_hostname=name)


def fetched(channel, name):
    with channel:
        channel.sendall(f"GET / HTTP/1.1\\r\\nHost: {name}:{SECURE}\\r\\nConnection: close\\r\\n\\r\\n".encode())
        answer = http.client.HTTPResponse(channel)
        answer.begin()
        return answer.status, answer.headers, answer.read().decode()


def refused(box, name, **options):
    try:
        return fetched(dial(box, name, **options), name)[0] in (400, 403, 495, 496)
    except OSError:
        return True


def test_plain_requests_are_sent_to_the_secure_port():
    seen = []
    for target in ("/", "/reports/2024?page=3&sort=up"):
        line = http.client.HTTPConnection("127.0.0.1", PLAIN, timeout=3)
        line.request("GET", target, headers={"Host": f"{NAMES[0]}:{PLAIN}"})
        answer = line.getresponse()
        line.close()
        seen.append((answer.status, answer.headers["Location"]))
    here = f"https://{NAMES[0]}:{SECURE}"
    assert seen == [(__CODE__, f"{here}/"), (__CODE__, f"{here}/reports/2024?page=3&sort=up")]
"""
_TRUSTED = """

def test_the_certificate_names_the_portal_for_ten_years(box):
    for name in NAMES:
        with dial(box, name__PAIR__) as channel:
            given = channel.getpeercert()
        lasting = ssl.cert_time_to_seconds(given["notAfter"]) - ssl.cert_time_to_seconds(given["notBefore"])
        assert lasting >= YEARS_S, given
    try:
        dial(box, "stranger.example"__PAIR__).close()
        said = "accepted"
    except ssl.SSLCertVerificationError as error:
        said = error.verify_message
    assert "mismatch" in said, said
"""


@dataclass(frozen=True)
class _Kind:
    """What a seed asks of TLS."""

    difficulty: Literal["easy", "medium", "hard"]
    names: tuple[str, ...]
    wish: str
    make: tuple[str, ...]
    """Commands in /work/tls that make certificates."""
    more: str
    """Lines of nginx."""
    bind: str
    """Options of HAProxy."""
    returns: str
    test: str
    weak: dict[str, tuple[str, str]]
    """Name -> what is replaced in the solution, and by what."""
    setup: tuple[str, ...] = ()
    maps: str = ""
    pair: str = ""


_CA = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3700 -subj '/CN=Portal authority' "
    "-keyout authority.key -out trust.pem"
)
_RETURN = "http-request return status 200 content-type text/html file /srv/portal/@FOLDER@/index.html"


def _signed(file: str, names: tuple[str, ...], days: int = 3650) -> str:
    said = ",".join(("IP:" if n[0].isdigit() else "DNS:") + n for n in names)
    return (
        f"openssl req -newkey rsa:2048 -nodes -subj /CN={names[0]} -keyout {file}.key -out {file}.csr && "
        f"openssl x509 -req -in {file}.csr -CA trust.pem -CAkey authority.key -CAcreateserial -days {days} "
        f"-extfile <(echo subjectAltName={said}) -out {file}.pem"
    )


def _authority(name: str, age: int) -> _Kind:
    names = (name, f"www.{name}", "127.0.0.1")
    strict = f"max-age={age}; includeSubDomains"
    return _Kind(
        difficulty="medium",
        names=names,
        wish="Make a small certificate authority of our own, sign one server certificate with it that covers "
        f"{name}, www.{name} and the address 127.0.0.1, and put the authority's certificate (PEM) into "
        "/work/tls/trust.pem; that file is all our clients trust. The server's certificate must not be the "
        f"authority's. Answers over TLS carry the header Strict-Transport-Security: {strict}",
        make=(_CA, _signed("site", names)),
        more=f'add_header Strict-Transport-Security "{strict}" always;',
        bind="",
        returns=f'{_RETURN} hdr Strict-Transport-Security "{strict}"',
        test=put_in(
            """

def test_an_authority_signed_it_and_browsers_are_told_to_stay(box):
    assert fetched(dial(box, NAMES[1]), NAMES[1])[2] == PAGES[0]
    with dial(box, NAMES[0]) as channel:
        given = channel.getpeercert()
    assert given["issuer"] != given["subject"]
    assert fetched(dial(box, NAMES[0]), NAMES[0])[1]["Strict-Transport-Security"] == "@STRICT@"
""",
            strict=strict,
        ),
        weak={
            "no_address": (",IP:127.0.0.1", ""),
            "one_year": ("-days 3650", "-days 365"),
            "temporary_redirect": ("return 301", "return 302"),
            "no_header": ("add_header", "# add_header"),
        },
    )


def _newest(name: str) -> _Kind:
    names = (name, f"api.{name}")
    return _Kind(
        difficulty="medium",
        names=names,
        wish=f"One self-signed certificate for {name} and api.{name} will do; its key has to be an elliptic-curve one "
        "on P-256. Copy the certificate to /work/tls/trust.pem, where our clients look for what they trust. Only "
        "TLS 1.3 may be spoken: a client that knows nothing newer than TLS 1.2 has to be turned away in the handshake.",
        make=(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 "
            f"-subj /CN={name} -addext subjectAltName=DNS:{name},DNS:api.{name} -keyout site.key -out site.pem",
            "cp site.pem trust.pem",
        ),
        more="ssl_protocols TLSv1.3;",
        bind="ssl-min-ver TLSv1.3",
        returns=_RETURN,
        test="""

def test_only_the_newest_protocol_and_a_curve(box):
    with dial(box, NAMES[0]) as channel:
        encoded = channel.getpeercert(binary_form=True)
        assert channel.version() == "TLSv1.3"
    # The identifier of P-256, as DER.
    assert bytes.fromhex("06082a8648ce3d030107") in encoded
    assert fetched(dial(box, NAMES[1]), NAMES[1])[::2] == (200, PAGES[0])
    assert refused(box, NAMES[0], most=ssl.TLSVersion.TLSv1_2)
""",
        weak={
            "older_protocol_too": ("ssl_protocols TLSv1.3;", "ssl_protocols TLSv1.2 TLSv1.3;"),
            "rsa": ("-newkey ec -pkeyopt ec_paramgen_curve:P-256", "-newkey rsa:2048"),
            "common_name_only": (f"-addext subjectAltName=DNS:{name},DNS:api.{name}", ""),
        },
    )


def _members(name: str, member: str) -> _Kind:
    client = (
        "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /O=Staff/CN={0} -keyout {0}.key -out "
        "{0}.csr && openssl x509 -req -in {0}.csr -CA {1}.pem -CAkey {1}.key -CAcreateserial -days 36500 -out {0}.pem"
    )
    root = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj '/CN={0}' "
        "-keyout {0}.key -out {0}.pem"
    )
    return _Kind(
        difficulty="hard",
        names=(name,),
        wish=f"The portal certificate is for {name}; make it as you like, as long as a client that trusts "
        "/work/tls/trust.pem accepts it. Only our staff may get in: a client has to show a certificate signed by "
        "/work/members/staff.pem, anybody else (no certificate, or one by another authority) gets no page, either by a "
        "failed handshake or by a status from 400, 403, 495, 496. Answers to staff carry a header X-Member with the "
        "common name of the client's certificate and nothing else. A sample client certificate with its key is in "
        "the folder, a foreign one too.",
        setup=(
            "mkdir -p /work/members && cd /work/members",
            root.format("staff"),
            root.format("other"),
            client.format(member, "staff"),
            client.format("stranger", "other"),
            "rm -f *.csr *.srl staff.key other.key",
        ),
        make=(_CA, _signed("site", (name,))),
        maps="map $ssl_client_s_dn $member { ~CN=(?<found>[^,]+) $found; }",
        more="ssl_client_certificate /work/members/staff.pem;\n        ssl_verify_client on;\n"
        "        add_header X-Member $member;",
        bind="ca-file /work/members/staff.pem verify required",
        returns=f"{_RETURN} hdr X-Member %[ssl_c_s_dn(cn)]",
        pair=f', pair=("/work/members/{member}.pem", "/work/members/{member}.key")',
        test=put_in(
            """

def test_staff_and_nobody_else_gets_the_page(box):
    folder = "/work/members/"
    staff = (folder + "@MEMBER@.pem", folder + "@MEMBER@.key")
    stranger = (folder + "stranger.pem", folder + "stranger.key")
    status, headers, page = fetched(dial(box, NAMES[0], pair=staff), NAMES[0])
    assert (status, headers["X-Member"], page) == (200, "@MEMBER@", PAGES[0])
    assert refused(box, NAMES[0]) and refused(box, NAMES[0], pair=stranger)
""",
            member=member,
        ),
        weak={
            "certificate_optional": ("ssl_verify_client on", "ssl_verify_client optional"),
            "any_authority": ("ssl_verify_client on", "ssl_verify_client optional_no_ca"),
            "whole_subject": ("add_header X-Member $member", "add_header X-Member $ssl_client_s_dn"),
        },
    )


def _both(first: str, second: str) -> _Kind:
    return _Kind(
        difficulty="hard",
        names=(first, second),
        wish=f"{first} shows the page of /srv/portal/{first}, {second} that of /srv/portal/{second}, on the same port. "
        "Each name has a certificate of its own which covers that name only and is picked by the name in the TLS "
        "handshake. Clients trust the certificates in /work/tls/trust.pem (one or several, PEM).",
        make=(_CA, _signed("site", (first,)), _signed("next", (second,))),
        more="",
        bind="",
        returns=f"{put_in(_RETURN, folder=first).strip()} if {{ ssl_fc_sni {first} }}\n    "
        f"{put_in(_RETURN, folder=second).strip()}",
        test="""

def test_each_name_shows_its_own_certificate_and_page(box):
    covered, shown = [], []
    for name in NAMES:
        with dial(box, name) as channel:
            covered.append(channel.getpeercert()["subjectAltName"])
        shown.append(fetched(dial(box, name), name)[::2])
    assert covered == [(("DNS", name),) for name in NAMES]
    assert shown == [(200, page) for page in PAGES]
""",
        weak={
            "one_for_both": (f"subjectAltName=DNS:{first}", f"subjectAltName=DNS:{first},DNS:{second}"),
            "first_certificate_twice": ("/work/tls/next.", "/work/tls/site."),
            "same_page": (f"root /srv/portal/{second}", f"root /srv/portal/{first}"),
        },
    )


def tls_portal(seed: int, context: Context) -> Draft:
    rng = chance("web_service", "tls_portal", seed)
    first, second = (f"{n}.example" for n in rng.sample(("ledger", "campus", "clinic", "depot", "archive"), 2))
    plain = rng.randint(8100, 8390)
    secure = plain + 343
    age = rng.choice((15552000, 31536000, 63072000))
    kind = (
        _authority(first, age),
        _newest(first),
        _members(first, rng.choice(("amira", "jonas", "keiko", "tomas"))),
        _both(first, second),
    )[seed % 4]
    code = (301, 308)[seed % 2]
    hosts = (first, second) if len(kind.names) == 2 and second in kind.names else (first,)
    pages = [
        f"<!doctype html>\n<title>{h}</title>\n<p>Signed in at {h}, desk {rng.randint(10, 99)}.</p>\n" for h in hosts
    ]
    common = {"plain": plain, "secure": secure, "code": code}
    fronts = [
        put_in(_FRONT, **common, name=h, file=f, more=kind.more, folder=h)
        for h, f in zip(hosts, ("site", "next"), strict=False)
    ]
    conf = put_in(_HEAD, **common, map=kind.maps) + "".join(fronts) + "}\n"
    make = tuple(f"cd /work/tls && {command}" for command in kind.make)
    solution = (
        "mkdir -p /work/tls",
        *make,
        written("/work/portal.conf", conf),
        nginx("/work/portal.conf", plain),
        answering(f"https://127.0.0.1:{secure}/") if not kind.pair else "true",
    )
    returns = put_in(kind.returns, folder=first).strip()
    proxy = put_in(_HAPROXY, **common, bind=kind.bind, returns=returns)
    joined = (
        "cd /work/tls && mkdir both && for f in site next; do [ ! -e $f.pem ] || cat $f.pem $f.key > both/$f.pem; done"
    )
    right = ("mkdir -p /work/tls", *make, joined, written("/work/portal.cfg", proxy), "haproxy -f /work/portal.cfg")
    shown = f"the page in /srv/portal/{first}" if len(hosts) == 1 else "a page per name"
    return Draft(
        family="tls_portal",
        seed=seed,
        difficulty=kind.difficulty,
        instruction=f"Our intranet portal still speaks plain HTTP and the auditors are unhappy. Set up a server on "
        f"this host with two ports: {secure} serves {shown} (index.html for /) over TLS, {plain} serves nothing itself "
        f"and answers every request with a {code} to the same host name and the same path and query at https on port "
        f"{secure} (absolute Location). {kind.wish} Certificates have to be valid for at least 3650 days. Keep keys "
        "and certificates below /work/tls. Both ports must be up when you hand over.",
        files=tuple(TaskFile(path=f"/srv/portal/{h}/index.html", text=t) for h, t in zip(hosts, pages, strict=True)),
        setup=kind.setup,
        solution=solution,
        right=(Variant(name="haproxy", commands=(*right, answering(f"http://127.0.0.1:{plain}/"))),),
        weak=(
            *(
                Variant(name=name, commands=tuple(c.replace(old, new) for c in solution))
                for name, (old, new) in kind.weak.items()
                if any(old in c for c in solution)
            ),
            Variant(name="query_lost", commands=tuple(c.replace("$request_uri", "$uri") for c in solution)),
            Variant(name="stopped_again", commands=(*solution, "nginx -c /work/portal.conf -s stop && sleep 0.3")),
        ),
        verifier=filled(_VERIFIER, ports=(plain, secure), names=list(kind.names), pages=pages, code=code)
        + _TRUSTED.replace("__PAIR__", kind.pair)
        + kind.test,
        state_scope="live",
    )
