"""A receiver of signed events: who may send, what is kept, and what a sender is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipeline.generators.domains.web_service.commands import put_in, started, written
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_PYTHON = """
import base64, hashlib, hmac, json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

KEYS = json.load(open("/work/keys.json"))
EVENTS, LOCK = {}, Lock()

def genuine(headers, path, body):
    @CHECK@

class Hooks(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def give(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path != "@EVENTS@":
            return self.give(404, {"error": "no such place"})
        with LOCK:
            self.give(200, {"count": len(EVENTS), "events": list(EVENTS.values())})

    def do_POST(self):
        size = int(self.headers.get("Content-Length") or 0)
        if size > 65536:
            self.close_connection = True
            self.rfile.read(size)
            return self.give(413, {"error": "too large"})
        body = self.rfile.read(size)
        if self.path != "@HOOKS@":
            return self.give(404, {"error": "no such place"})
        if not genuine(self.headers, self.path, body):
            return self.give(401, {"error": "signature"})
        try:
            event = json.loads(body)
        except ValueError:
            return self.give(400, {"error": "no JSON"})
        fields = [event.get(name) for name in ("@ID@", "@KIND@")] if isinstance(event, dict) else [None]
        if not all(isinstance(field, str) and field for field in fields):
            return self.give(422, {"error": "fields"})
        with LOCK:
            if event["@ID@"] in EVENTS:
                return self.give(200, {"stored": False})
            EVENTS[event["@ID@"]] = event
        self.give(201, {"stored": True})

ThreadingHTTPServer(("127.0.0.1", @PORT@), Hooks).serve_forever()
"""
_NODE = """
const http = require('http'), crypto = require('crypto'), fs = require('fs');
const keys = JSON.parse(fs.readFileSync('/work/keys.json'));
const events = new Map();
const mac = (name, key, data, form) => crypto.createHmac(name, key).update(data).digest(form);
const genuine = (headers, path, body) => {
  @CHECK@
};
http.createServer((request, response) => {
  const give = (status, value) => {
    response.writeHead(status, {'Content-Type': 'application/json; charset=utf-8'});
    response.end(JSON.stringify(value));
  };
  const parts = [];
  request.on('data', part => parts.push(part));
  request.on('end', () => {
    const body = Buffer.concat(parts);
    if (request.method === 'GET' && request.url === '@EVENTS@')
      return give(200, {events: [...events.values()], count: events.size});
    if (request.method !== 'POST' || request.url !== '@HOOKS@') return give(404, {error: 'nothing here'});
    if (body.length > 65536) return give(413, {error: 'size'});
    if (!genuine(request.headers, request.url, body)) return give(401, {error: 'not signed'});
    let event;
    try { event = JSON.parse(body.toString()); } catch { return give(400, {error: 'not JSON'}); }
    const text = name => event && typeof event === 'object' && typeof event[name] === 'string' && event[name];
    if (!text('@ID@') || !text('@KIND@')) return give(422, {error: 'incomplete'});
    const known = events.has(event.@ID@);
    if (!known) events.set(event.@ID@, event);
    give(known ? 200 : 201, {stored: !known});
  });
}).listen(@PORT@, '127.0.0.1');
"""
_VERIFIER = """
import base64
import hashlib
import hmac
import http.client
import json

PORT = __PORT__
HOOKS, EVENTS = __PATHS__
KEYS = __KEYS__
ID, KIND = __FIELDS__


def send(method, path, body=b"", **headers):
    way = http.client.HTTPConnection("127.0.0.1", PORT, timeout=3)
    way.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = way.getresponse()
    got = json.loads(answer.read())
    way.close()
    return answer.status, got


def mac(name, key, data):
    return hmac.new(KEYS[key].encode(), data, name)

__SIGNING__

def event(number, **more):
    return json.dumps({ID: f"probe-{number}", KIND: "tested", "note": "Zoë  5 €", **more}, ensure_ascii=False).encode()


def test_signed_events_are_kept_once_and_in_order():
    before = send("GET", EVENTS)[1]["count"]
    bodies = [event(f"{before}-{part}", part=part) for part in (2, 1, 3)]
    assert [send("POST", HOOKS, body, **signed(body)) for body in bodies] == [(201, {"stored": True})] * 3
    again = event(f"{before}-1", part="changed")
    assert send("POST", HOOKS, again, **signed(again)) == (200, {"stored": False})
    status, said = send("GET", EVENTS)
    assert (status, said["count"], len(said["events"])) == (200, before + 3, before + 3)
    assert said["events"][-3:] == [json.loads(body) for body in bodies]


def test_what_is_not_signed_is_refused_and_forgotten():
    before = send("GET", EVENTS)[1]["count"]
    body = event(f"{before}-forged")
    other = event(f"{before}-other")
    forged = [signed(other), {}, *forgeries(body)]
    seen = [send("POST", HOOKS, body, **headers)[0] for headers in forged]
    assert seen == [401] * len(forged)
    assert send("POST", HOOKS, b"{broken", **signed(body))[0] == 401
    assert send("GET", EVENTS)[1]["count"] == before


def test_faults_have_their_own_answers():
    before = send("GET", EVENTS)[1]["count"]
    odd = [b"{broken", b"", b"[1, 2]", json.dumps({ID: "x"}).encode(), json.dumps({ID: 7, KIND: "t"}).encode(),
           json.dumps({ID: "", KIND: "t"}).encode()]
    assert [send("POST", HOOKS, body, **signed(body))[0] for body in odd] == [400, 400, 422, 422, 422, 422]
    large = event("large", filler="x" * 70000)
    assert send("POST", HOOKS, large, **signed(large))[0] == 413
    assert send("GET", HOOKS + "/none")[0] == 404 and send("GET", EVENTS)[1]["count"] == before
"""


@dataclass(frozen=True)
class _Scheme:
    """How a request is signed, in words and in three programs."""

    difficulty: Literal["medium", "hard"]
    wish: str
    python: str
    node: str
    signing: str
    weak: dict[str, tuple[str, str]]


_HEX = _Scheme(
    difficulty="medium",
    wish="Every request carries X-Signature-256: sha256=HEX, the HMAC-SHA-256 of the raw body under the key `main`, in "
    "lower-case hex; without the prefix sha256= it is not valid.",
    python="""want = "sha256=" + hmac.new(KEYS["main"].encode(), body, "sha256").hexdigest()
    return hmac.compare_digest(want, headers.get("X-Signature-256", ""))""",
    node="return headers['x-signature-256'] === 'sha256=' + mac('sha256', keys.main, body, 'hex');",
    signing="""
def signed(body):
    return {"X_Signature_256": "sha256=" + mac("sha256", "main", body).hexdigest()}


def forgeries(body):
    digest = mac("sha256", "main", body).hexdigest()
    plain = hashlib.sha256(body).hexdigest()
    old = mac("sha256", "old", body).hexdigest()
    wrong = (digest, "sha256=" + plain, "sha256=" + old, "sha256=" + digest[:-1], "sha1=" + digest)
    return [{"X_Signature_256": value} for value in wrong]
""",
    weak={
        "prefix_not_needed": (
            'headers.get("X-Signature-256", ""))',
            '"sha256=" + headers.get("X-Signature-256", "").removeprefix("sha256="))',
        ),
        "hash_without_key": ('hmac.new(KEYS["main"].encode(), body, "sha256")', "hashlib.sha256(body)"),
        "signed_as_parsed": (
            'KEYS["main"].encode(), body,',
            'KEYS["main"].encode(), json.dumps(json.loads(body)).encode(),',
        ),
    },
)
_ROTATED = _Scheme(
    difficulty="hard",
    wish="Every request carries Hook-Signature: t=NUMBER,v1=HEX[,v1=HEX…]: each v1 is a lower-case hex HMAC-SHA-256 of "
    "NUMBER, a dot and the raw body, and the request is genuine when at least one of them fits one of the keys `main` "
    "or `next` (we are rotating them; `old` is no longer valid). Parts with other names (v0=…) are to be ignored; how "
    "old NUMBER is does not matter.",
    python="""parts = [part.strip().partition("=")[::2] for part in headers.get("Hook-Signature", "").split(",")]
    moment = next((value for name, value in parts if name == "t"), "")
    wants = [hmac.new(KEYS[k].encode(), moment.encode() + b"." + body, "sha256").hexdigest() for k in ("main", "next")]
    return any(name == "v1" and value in wants for name, value in parts)""",
    node="""const parts = (headers['hook-signature'] || '').split(',').map(part => part.trim().split('='));
  const moment = (parts.find(part => part[0] === 't') || [])[1] || '';
  const data = Buffer.concat([Buffer.from(moment + '.'), body]);
  const wants = ['main', 'next'].map(key => mac('sha256', keys[key], data, 'hex'));
  return parts.some(part => part[0] === 'v1' && wants.includes(part[1]));""",
    signing="""
def value(body, key, moment="1712000000"):
    return mac("sha256", key, moment.encode() + b"." + body).hexdigest()


def signed(body):
    kind = len(body) % 3
    good = [f"v1={value(body, 'main')}", f"v1={value(body, 'next')}", f"v1={'0' * 64},v1={value(body, 'next')},v0=ab"]
    return {"Hook_Signature": f"t=1712000000,{good[kind]}"}


def forgeries(body):
    wrong = (
        f"t=1712000000,v1={value(body, 'old')}",
        f"t=1712000001,v1={value(body, 'main')}",
        f"t=1712000000,v0={value(body, 'main')}",
        f"v1={value(body, 'main')}",
        f"t=1712000000,v1={mac('sha256', 'main', body).hexdigest()}",
        "t=1712000000",
    )
    return [{"Hook_Signature": text} for text in wrong]


def test_any_of_several_signatures_may_fit():
    before = send("GET", EVENTS)[1]["count"]
    bodies = [event(f"{before}-{'r' * length}") for length in (1, 2, 3)]
    assert [send("POST", HOOKS, body, **signed(body))[0] for body in bodies] == [201] * 3
""",
    weak={
        "first_signature_only": (
            "return any(",
            'return next((v for n, v in parts if n == "v1"), "") in wants and any(',
        ),
        "one_key": ('("main", "next")', '("main",)'),
        "old_key_too": ('("main", "next")', '("main", "next", "old")'),
        "any_name": ('name == "v1" and ', ""),
    },
)
_SENDERS = _Scheme(
    difficulty="hard",
    wish="Every request carries Authorization: HMAC SENDER:BASE64, where SENDER is a name in the key file and BASE64 "
    "the standard, padded base64 of the HMAC-SHA-512 under that sender's key of three things, each followed by a line "
    "feed except the last: the method, the path as requested, and the SHA-256 of the raw body in lower-case hex.",
    python="""scheme, _, rest = headers.get("Authorization", "").partition(" ")
    sender, _, given = rest.partition(":")
    if scheme != "HMAC" or sender not in KEYS:
        return False
    data = f"POST\\n{path}\\n{hashlib.sha256(body).hexdigest()}".encode()
    return given == base64.b64encode(hmac.new(KEYS[sender].encode(), data, "sha512").digest()).decode()""",
    node="""const found = /^HMAC ([^:]+):(.+)$/.exec(headers.authorization || '');
  if (!found || !Object.hasOwn(keys, found[1])) return false;
  const data = ['POST', path, crypto.createHash('sha256').update(body).digest('hex')].join('\\n');
  return found[2] === mac('sha512', keys[found[1]], data, 'base64');""",
    signing="""
def token(body, key, path=HOOKS, method="POST", name="sha512"):
    data = f"{method}\\n{path}\\n{hashlib.sha256(body).hexdigest()}".encode()
    return base64.b64encode(mac(name, key, data).digest()).decode()


def signed(body):
    sender = sorted(KEYS)[len(body) % len(KEYS)]
    return {"Authorization": f"HMAC {sender}:{token(body, sender)}"}


def forgeries(body):
    one, two = sorted(KEYS)[:2]
    wrong = (
        f"HMAC {one}:{token(body, two)}",
        f"HMAC nobody:{token(body, one)}",
        f"Bearer {one}:{token(body, one)}",
        f"HMAC {one}:{token(body, one, path='/')}",
        f"HMAC {one}:{token(body, one, method='PUT')}",
        f"HMAC {one}:{token(body, one, name='sha256')}",
        f"HMAC {one}",
    )
    return [{"Authorization": text} for text in wrong]
""",
    weak={
        "path_not_signed": ('f"POST\\n{path}\\n', 'f"POST\\n{path}\\n{path}\\n'),
        "any_scheme": ('scheme != "HMAC" or ', ""),
        "one_key_for_all": ("KEYS[sender].encode(), data", 'KEYS["main"].encode(), data'),
        "trusts_the_sender": ("return given ==", "return True or given =="),
    },
)
_TIMED = _Scheme(
    difficulty="medium",
    wish="Every request carries X-Nonce and X-Seal: the seal is the upper-case hex HMAC-SHA-384, under the key `main`, "
    "of the nonce's bytes followed directly by the raw body. The nonce has 16 to 64 characters, letters and digits "
    "only; with any other nonce a request is not genuine, however it is sealed.",
    python="""nonce = headers.get("X-Nonce", "")
    if not (16 <= len(nonce) <= 64 and nonce.isascii() and nonce.isalnum()):
        return False
    want = hmac.new(KEYS["main"].encode(), nonce.encode() + body, "sha384").hexdigest().upper()
    return want == headers.get("X-Seal", "")""",
    node="""const nonce = headers['x-nonce'] || '';
  if (!/^[A-Za-z0-9]{16,64}$/.test(nonce)) return false;
  const data = Buffer.concat([Buffer.from(nonce), body]);
  return headers['x-seal'] === mac('sha384', keys.main, data, 'hex').toUpperCase();""",
    signing="""
def sealed(body, nonce, key="main"):
    return {"X_Nonce": nonce, "X_Seal": mac("sha384", key, nonce.encode() + body).hexdigest().upper()}


def signed(body):
    return sealed(body, ("k7" * 8, "Q" * 64, "0" * 17)[len(body) % 3])


def forgeries(body):
    good = sealed(body, "n" * 20)
    moved = {"X_Nonce": "n" * 19, "X_Seal": good["X_Seal"]}
    lower = {**good, "X_Seal": good["X_Seal"].lower()}
    odd = [sealed(body, nonce) for nonce in ("n" * 15, "n" * 65, "n" * 18 + "-x", "")]
    return [moved, lower, sealed(body, "n" * 20, "old"), {"X_Seal": good["X_Seal"]}, *odd]
""",
    weak={
        "any_nonce": ("16 <= len(nonce) <= 64 and ", ""),
        "nonce_behind_the_body": ("nonce.encode() + body", "body + nonce.encode()"),
        "either_case": ('headers.get("X-Seal", "")', 'headers.get("X-Seal", "").upper()'),
    },
)


def webhook_receiver(seed: int, context: Context) -> Draft:
    rng = chance("web_service", "webhook_receiver", seed)
    scheme = (_HEX, _ROTATED, _SENDERS, _TIMED)[seed % 4]
    port = rng.randint(8100, 8999)
    hooks, events = rng.choice((("/hooks", "/events"), ("/in", "/kept"), ("/receive", "/log")))
    id_name, kind = rng.choice((("id", "type"), ("delivery", "topic"), ("uid", "action")))
    keys = {name: f"{name[0]}k_{rng.getrandbits(96):024x}" for name in ("main", "next", "old")}
    values = {"port": port, "hooks": hooks, "events": events, "id": id_name, "kind": kind}
    python = put_in(_PYTHON, **values, check=scheme.python)
    node = put_in(_NODE, **values, check=scheme.node)

    def serving(text: str) -> tuple[str, ...]:
        return (written("/work/hooks.py", text), started("python3 /work/hooks.py", port))

    half = {
        **scheme.weak,
        "stored_twice": (f'if event["{id_name}"] in EVENTS:', "if False:"),
        "everything_is_genuine": ("if not genuine(self.headers, self.path, body):", "if False:"),
        "no_limit": ("if size > 65536:", "if size > 1 << 30:"),
    }
    return Draft(
        family="webhook_receiver",
        seed=seed,
        difficulty=scheme.difficulty,
        language=("python", "javascript")[seed % 2],
        instruction=f"I need a small service on 127.0.0.1:{port} that takes webhooks (Python 3 with Flask or Node 18, "
        f"no further packages). The keys are in /work/keys.json (name: key, used as its UTF-8 bytes). POST {hooks} "
        f"takes an event. {scheme.wish} In this order: a body of more than 65536 bytes gives 413; a signature that is "
        f"missing or wrong 401; a genuine body that is no JSON 400; JSON that is no object with non-empty strings "
        f"`{id_name}` and `{kind}` gives 422; an event whose `{id_name}` was stored before gives "
        f'200 with {{"stored": false}} '
        f'and changes nothing; a new one is stored and gives 201 with {{"stored": true}}. GET {events} lists what is '
        "stored: "
        f'{{"count": N, "events": [...]}}, '
        "each event complete and as sent, in order of arrival. Memory is good enough as a store. Every answer, errors "
        "too, is JSON; other paths give 404. Leave it running.",
        files=(
            TaskFile(
                path="/work/keys.json", text=put_in('{"main": "@MAIN@", "next": "@NEXT@", "old": "@OLD@"}', **keys)
            ),
        ),
        solution=serving(python),
        right=(
            Variant(
                name="other_language", commands=(written("/work/hooks.js", node), started("node /work/hooks.js", port))
            ),
        ),
        weak=tuple(Variant(name=n, commands=serving(python.replace(old, new))) for n, (old, new) in half.items()),
        verifier=filled(
            _VERIFIER.replace("__SIGNING__", scheme.signing),
            port=port,
            paths=(hooks, events),
            keys=keys,
            fields=(id_name, kind),
        ),
        state_scope="live",
    )
