"""Small read-only services over a table of status codes: the first program somebody puts online."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from pipeline.generators.domains.web_service.commands import put_in, started, written
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_FLASK = """
import csv, io, json
from flask import Flask, Response, jsonify, request

CODES = {int(code): name for code, name in json.load(open("/work/codes.json")).items()}
app = Flask(__name__)
app.json.sort_keys = False

@ROUTES@

app.run("127.0.0.1", @PORT@)
"""
_NODE = """
const http = require('http'), fs = require('fs');
const codes = JSON.parse(fs.readFileSync('/work/codes.json'));
const all = Object.entries(codes).map(([code, name]) => ({code: Number(code), name})).sort((a, b) => a.code - b.code);
http.createServer((request, response) => {
  const url = new URL(request.url, 'http://here');
  const give = (status, type, text) => { response.writeHead(status, {'Content-Type': type}); response.end(text); };
  const json = (status, value) => give(status, 'application/json', JSON.stringify(value));
  let found;
  @ROUTES@
  json(404, {error: 'unknown'});
}).listen(@PORT@, '127.0.0.1');
"""


@dataclass(frozen=True)
class _Lookup:
    """What is asked of the table."""

    difficulty: Literal["easy", "medium"]
    wish: str
    flask: str
    node: str
    tests: str
    weak: dict[str, tuple[str, str]]


_ONE = _Lookup(
    difficulty="easy",
    wish="GET /CODE answers with the name alone as text/plain (no line end), for a code that is not in the file with "
    "status 404. GET /count answers with the number of codes in the file as text/plain.",
    flask="""@app.get("/<int:code>")
def name(code):
    if code not in CODES:
        return Response("unknown", 404, mimetype="text/plain")
    return Response(CODES[code], mimetype="text/plain")

@app.get("/count")
def count():
    return Response(str(len(CODES)), mimetype="text/plain")""",
    node="""if (url.pathname === '/count') return give(200, 'text/plain; charset=utf-8', String(all.length));
  if ((found = codes[url.pathname.slice(1)])) return give(200, 'text/plain', found);""",
    tests="""
def test_names_are_given_as_text():
    given = {code: ask(f"/{code}") for code in CODES}
    assert {code: body for code, (_, _, body) in given.items()} == CODES
    assert {(status, kind) for status, kind, _ in given.values()} == {(200, "text/plain")}


def test_unknown_codes_are_not_found():
    assert [ask(f"/{code}")[0] for code in (299, 600, 4040)] == [404] * 3
    assert ask("/count") == (200, "text/plain", str(len(CODES)))
""",
    weak={
        "as_html": ('mimetype="text/plain"', 'mimetype="text/html"'),
        "line_end": ("Response(CODES[code],", 'Response(CODES[code] + "\\n",'),
        "unknown_is_empty": ('Response("unknown", 404,', 'Response("", 200,'),
    },
)
_SEARCH = _Lookup(
    difficulty="medium",
    wish='GET /search?q=TEXT answers with a JSON array of {"code": NUMBER, "name": TEXT} for all names that '
    "contain the text, upper and lower case being alike, by rising code; an empty array when none does. With limit=N "
    "in the query it holds the first N of them at most. Without q, with an empty q, or with a limit that is no "
    "positive decimal number, status 400.",
    flask="""@app.get("/search")
def search():
    text, limit = request.args.get("q", ""), request.args.get("limit", "999")
    if not text or not (limit.isascii() and limit.isdigit() and int(limit)):
        return jsonify(error="query"), 400
    found = [{"code": c, "name": n} for c, n in sorted(CODES.items()) if text.lower() in n.lower()]
    return jsonify(found[: int(limit)])""",
    node="""if (url.pathname === '/search') {
    const text = url.searchParams.get('q'), limit = url.searchParams.get('limit') ?? '999';
    if (!text || !/^[0-9]+$/.test(limit) || !Number(limit)) return json(400, {error: 'query'});
    found = all.filter(one => one.name.toLowerCase().includes(text.toLowerCase()));
    return json(200, found.slice(0, Number(limit)));
  }""",
    tests="""
def matching(text):
    return [{"code": int(c), "name": n} for c, n in sorted(CODES.items()) if text.lower() in n.lower()]


def test_search_ignores_case_and_sorts():
    texts = ("to", "REQUEST", "not", "O", "I'm", "zebra")
    given = [ask("/search?" + urllib.parse.urlencode({"q": text})) for text in texts]
    assert [json.loads(body) for _, _, body in given] == [matching(text) for text in texts]
    assert {(status, kind) for status, kind, _ in given} == {(200, "application/json")}


def test_limits_and_faulty_queries():
    assert json.loads(ask("/search?q=e&limit=3")[2]) == matching("e")[:3]
    assert json.loads(ask("/search?q=zebra&limit=3")[2]) == []
    faulty = ("", "?q=", "?q=a&limit=0", "?q=a&limit=-1", "?q=a&limit=x", "?q=a&limit=1.5", "?limit=2")
    assert [ask("/search" + query)[0] for query in faulty] == [400] * len(faulty)
""",
    weak={
        "case_counts": ("text.lower() in n.lower()", "text in n"),
        "zero_allowed": (" and int(limit)", ""),
        "limit_ignored": ("found[: int(limit)]", "found"),
        "beginning_only": ("text.lower() in n.lower()", "n.lower().startswith(text.lower())"),
    },
)
_CLASSES = _Lookup(
    difficulty="medium",
    wish='GET /classes answers with a JSON object: for each first digit that occurs (as a text key like "4xx") the '
    "number of codes. GET /classes/4xx and so on answers with an object that maps each code of that class (as text) to "
    "its name; a class that does not occur, or any other path, gives 404 and an object with the text `error`. HEAD "
    "works like GET without the body, POST gives 405.",
    flask="""def grouped():
    groups = {}
    for code, name in CODES.items():
        groups.setdefault(f"{code // 100}xx", {})[str(code)] = name
    return groups

@app.get("/classes")
def classes():
    return jsonify({key: len(group) for key, group in grouped().items()})

@app.get("/classes/<key>")
def members(key):
    return jsonify(grouped()[key]) if key in grouped() else (jsonify(error="no such class"), 404)

@app.errorhandler(404)
def lost(error):
    return jsonify(error="nothing here"), 404""",
    node="""if (request.method === 'POST') return json(405, {error: 'method'});
  const groups = {};
  for (const one of all) (groups[`${String(one.code)[0]}xx`] ??= {})[one.code] = one.name;
  if (url.pathname === '/classes')
    return json(200, Object.fromEntries(Object.entries(groups).map(([k, g]) => [k, Object.keys(g).length])));
  found = /^\\/classes\\/([1-9]xx)$/.exec(url.pathname);
  if (found && groups[found[1]]) return json(200, groups[found[1]]);""",
    tests="""
def test_classes_are_counted_and_listed():
    heads = sorted({code[0] + "xx" for code in CODES})
    status, kind, body = ask("/classes")
    assert (status, kind) == (200, "application/json")
    assert json.loads(body) == {head: sum(code[0] == head[0] for code in CODES) for head in heads}
    lists = {head: json.loads(ask(f"/classes/{head}")[2]) for head in heads}
    assert lists == {head: {c: n for c, n in CODES.items() if c[0] == head[0]} for head in heads}


def test_absent_places_and_methods():
    for path in ("/classes/9xx", "/classes/4", "/classes/404", "/", "/classes/4xx/1"):
        status, kind, body = ask(path)
        assert (status, kind) == (404, "application/json") and isinstance(json.loads(body)["error"], str), path
    assert ask("/classes", method="POST")[0] == 405 and ask("/classes", method="HEAD") == (200, "application/json", "")
""",
    weak={
        "plain_404": ("@app.errorhandler(404)", "@app.errorhandler(418)"),
        "empty_class": ("if key in grouped() else", 'if key in grouped() else jsonify({}) if key.endswith("xx") else'),
        "names_instead_of_counts": ("len(group)", "sorted(group)"),
    },
)
_FORMS = _Lookup(
    difficulty="medium",
    wish="GET /codes answers in the format that the client asks for: Accept: application/json (or */*, or no Accept) "
    "gets an object from code to name, Accept: text/csv gets CSV with the header code,name, one line per code by "
    "rising code, lines ended by CR LF and fields quoted where CSV needs it; a client that accepts neither gets status "
    "406. Where both are accepted with q values, the higher one wins. Every answer, the 406 too, has Vary: Accept.",
    flask="""@app.get("/codes")
def codes():
    best = request.accept_mimetypes.best_match(["application/json", "text/csv"], default=None) \\
        if request.headers.get("Accept") else "application/json"
    if best is None:
        made = Response("neither", 406, mimetype="text/plain")
    elif best == "text/csv":
        text = io.StringIO()
        csv.writer(text).writerows([("code", "name"), *sorted(CODES.items())])
        made = Response(text.getvalue(), mimetype="text/csv")
    else:
        made = jsonify({str(code): name for code, name in CODES.items()})
    made.headers["Vary"] = "Accept"
    return made""",
    node="""if (url.pathname === '/codes') {
    response.setHeader('Vary', 'Accept');
    const wishes = (request.headers.accept || '*/*').split(',').map(part => {
      const [type, ...more] = part.split(';').map(text => text.trim());
      const q = more.find(text => text.startsWith('q='));
      return {type, q: q ? Number(q.slice(2)) : 1};
    });
    const worth = (...types) => types.map(type => wishes.find(wish => wish.type === type)).find(Boolean)?.q ?? 0;
    const json_q = worth('application/json', 'application/*', '*/*'), csv_q = worth('text/csv', 'text/*', '*/*');
    if (!json_q && !csv_q) return give(406, 'text/plain', 'neither');
    if (json_q >= csv_q) return json(200, codes);
    const field = text => /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    return give(200, 'text/csv', ['code,name', ...all.map(one => `${one.code},${field(one.name)}`), ''].join('\\r\\n'));
  }""",
    tests="""
def test_each_format_is_complete():
    table = "".join(f'{c},{f"{chr(34)}{n}{chr(34)}" if "," in n else n}\\r\\n' for c, n in sorted(CODES.items()))
    assert ask("/codes", Accept="text/csv") == (200, "text/csv", "code,name\\r\\n" + table)
    for accepted in ({"Accept": "application/json"}, {"Accept": "*/*"}, {}):
        status, kind, body = ask("/codes", **accepted)
        assert (status, kind, json.loads(body)) == (200, "application/json", CODES)


def test_the_better_liked_format_wins():
    likes = {
        "text/csv;q=0.4, application/json;q=0.9": "application/json",
        "application/json;q=0.2, text/csv;q=0.7": "text/csv",
        "image/png, text/csv;q=0.1": "text/csv",
    }
    assert {like: ask("/codes", Accept=like)[1] for like in likes} == likes
    assert [ask("/codes", Accept=like)[0] for like in ("image/png", "text/html, text/plain;q=0.5")] == [406] * 2


def test_caches_are_told():
    for like in ("text/csv", "application/json", "image/png"):
        ask("/codes", Accept=like)
        assert "accept" in LAST["vary"].lower(), like
    assert LAST
""",
    weak={
        "never_406": ("default=None", 'default="application/json"'),
        "no_vary": ('made.headers["Vary"] = "Accept"', "pass"),
        "unix_lines": ("csv.writer(text)", 'csv.writer(text, lineterminator="\\n")'),
        "by_order_only": (
            'request.accept_mimetypes.best_match(["application/json", "text/csv"], default=None)',
            'next((t for t in ("application/json", "text/csv") if t in request.headers["Accept"]), None)',
        ),
    },
)
_VERIFIER = """
import json
import urllib.parse
import urllib.request

CODES = __CODES__
LAST = {}


def ask(target, method="GET", **headers):
    opener = urllib.request.OpenerDirector()
    opener.add_handler(urllib.request.HTTPHandler())
    opener.addheaders = []
    with opener.open(urllib.request.Request(__BASE__ + target, None, headers, method=method), timeout=3) as answer:
        LAST["vary"] = answer.headers.get("Vary") or ""
        return answer.status, answer.headers.get_content_type(), answer.read().decode()

"""


def status_lookup(seed: int, context: Context) -> Draft:
    rng = chance("web_service", "status_lookup", seed)
    lookup = (_ONE, _SEARCH, _CLASSES, _FORMS)[seed % 4]
    port = rng.randint(5000, 5999)
    whole = json.loads(context.text("http_statuses/codes.json"))
    codes = {code: whole[code] for code in sorted([*rng.sample(sorted(whole), len(whole) - rng.randint(6, 14)), "418"])}
    extra = rng.choice(("Hold the Line, Please", "Out of Tea, Try Coffee", "Closed, See Notice"))
    codes |= {str(rng.randint(460, 498)): extra}
    text = json.dumps(dict(sorted(codes.items(), key=lambda row: row[1])), indent=1) + "\n"

    def serving(routes: str) -> tuple[str, ...]:
        program = put_in(_FLASK, port=port, routes=routes)
        return (written("/work/app.py", program), started("python3 /work/app.py", port))

    node = put_in(_NODE, port=port, routes=lookup.node)
    return Draft(
        family="status_lookup",
        seed=seed,
        difficulty=lookup.difficulty,
        language=rng.choice(("python", "javascript")),
        instruction=f"/work/codes.json maps HTTP status codes to names (ours included, so don't use a list from "
        f"elsewhere). Make a little read-only web service from it on 127.0.0.1:{port} and leave it running. "
        f"{lookup.wish} Flask and Node 18 are here, take either.",
        files=(TaskFile(path="/work/codes.json", text=text),),
        solution=serving(lookup.flask),
        right=(Variant(name="node", commands=(written("/work/app.js", node), started("node /work/app.js", port))),),
        weak=tuple(Variant(name=n, commands=serving(lookup.flask.replace(*c))) for n, c in lookup.weak.items()),
        verifier=filled(_VERIFIER, codes=codes, base=f"http://127.0.0.1:{port}") + lookup.tests,
        state_scope="live",
        contexts=("http_statuses",),
    )
