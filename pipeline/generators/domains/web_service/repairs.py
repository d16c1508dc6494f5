"""A given service that deviates from its specification in several places, which are to be found and repaired.

Each seed plants other faults; leaving one of them in is a weak solution.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from pipeline.generators.domains.web_service.commands import put_in, started, written
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_SPEC = """# @TITLE@ service

Data: the SQLite file @DATA@, table `@TABLE@(id, title, @GROUP@, price)`; price is in cents. All bodies are JSON in
UTF-8 with Content-Type application/json, letters outside of ASCII included in whatever JSON allows.

- GET /@TABLE@?page=N&size=M: 200, {"total": rows in all, "page": N, "items": [...]}; ordered by price, cheapest first,
  then id; pages begin with 1 and have 10 rows unless size says so; a page behind the end has no items.
- GET /@TABLE@?@GROUP@=X: the same, of rows whose @GROUP@ is exactly X; total counts these rows only.
- GET /@TABLE@/search?q=TEXT: 200, array of rows whose title contains TEXT (upper and lower case of ASCII letters
  alike), by id; all signs in TEXT, like % or _ or quotes, stand for themselves.
- GET /@TABLE@/ID: 200 with the row; 404 with {"error": ...} when there is none.
- POST /@TABLE@: an object with title (text, not blank), @GROUP@ (text, not blank) and price (integer, 0 or more; no
  Boolean): 201 with the new row; 400 for anything else.
- DELETE /@TABLE@/ID: 204 without a body, and the row is gone for good; 404 when there is none.

page and size must be whole numbers of at least 1 and size at most 50, anything else is a 400. Rows are objects with id,
title, @GROUP@ and price; id and price are numbers.
"""
_FLASK = r"""
import json
import sqlite3

from flask import Flask, Response, request

app = Flask(__name__)
COLUMNS = ("id", "title", "@GROUP@", "price")


def base():
    return sqlite3.connect("@DATA@")


def give(value, status=200):
    return Response(json.dumps(value, ensure_ascii=False).encode("utf-8"), status, content_type="application/json")


def rows(query, values=()):
    with base() as link:
        return [dict(zip(COLUMNS, row)) for row in link.execute(query, values)]


def number(name, default, most):
    text = request.args.get(name, str(default))
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        return None
    return int(text)


@app.get("/@TABLE@")
def listed():
    page, size = number("page", 1, 10**9), number("size", 10, 50)
    if page is None or size is None:
        return give({"error": "page or size"}, 400)
    group = request.args.get("@GROUP@")
    where, values = ("where @GROUP@ = ?", [group]) if group is not None else ("", [])
    found = rows(f"select id, title, @GROUP@, price from @TABLE@ {where} order by price, id limit ? offset ?",
                 [*values, size, (page - 1) * size])
    total = base().execute(f"select count(*) from @TABLE@ {where}", values).fetchone()[0]
    return give({"total": total, "page": page, "items": found})


@app.get("/@TABLE@/search")
def search():
    text = request.args.get("q", "")
    for sign in "!%_":
        text = text.replace(sign, "!" + sign)
    query = "select id, title, @GROUP@, price from @TABLE@ where title like ? escape '!' order by id"
    return give(rows(query, [f"%{text}%"]))



@app.get("/@TABLE@/<int:key>")
def one(key):
    found = rows("select id, title, @GROUP@, price from @TABLE@ where id = ?", [key])
    return give(found[0]) if found else give({"error": "no such row"}, 404)


@app.post("/@TABLE@")
def made():
    new = request.get_json(force=True, silent=True)
    if not isinstance(new, dict):
        return give({"error": "no object"}, 400)
    title, group, price = new.get("title"), new.get("@GROUP@"), new.get("price")
    if not isinstance(title, str) or not title.strip() or not isinstance(group, str) or not group.strip():
        return give({"error": "text"}, 400)
    if type(price) is not int or price < 0:
        return give({"error": "price"}, 400)
    with base() as link:
        query = "insert into @TABLE@(title, @GROUP@, price) values (?, ?, ?)"
        key = link.execute(query, [title, group, price]).lastrowid
    return give({"id": key, "title": title, "@GROUP@": group, "price": price}, 201)


@app.delete("/@TABLE@/<int:key>")
def gone(key):
    link = base()
    count = link.execute("delete from @TABLE@ where id = ?", [key]).rowcount
    link.commit()
    link.close()
    return Response(status=204) if count else give({"error": "no such row"}, 404)


app.run("127.0.0.1", @PORT@)
"""
_PHP = r"""
<?php
// Started as: php -S 127.0.0.1:@PORT@ THIS_FILE
const COLUMNS = 'id, title, @GROUP@, price';
$base = new PDO('sqlite:@DATA@', null, null, [PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC]);

function give($value, int $status = 200): never {
    http_response_code($status);
    header('Content-Type: application/json');
    echo json_encode($value);
    exit;
}
function rows(string $query, array $values = []): array {
    global $base;
    $wish = $base->prepare($query);
    foreach ($values as $at => $value) {
        $wish->bindValue($at + 1, $value, is_int($value) ? PDO::PARAM_INT : PDO::PARAM_STR);
    }
    $wish->execute();
    return $wish->fetchAll();
}
function number(string $name, int $default, int $most): int {
    $text = $_GET[$name] ?? (string) $default;
    if (is_string($text) && preg_match('/^[0-9]+$/D', $text) && (int) $text >= 1 && (int) $text <= $most) {
        return (int) $text;
    }
    give(['error' => $name], 400);
}

$method = $_SERVER['REQUEST_METHOD'];
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
if ($method === 'GET' && $path === '/@TABLE@') {
    [$page, $size] = [number('page', 1, 10 ** 9), number('size', 10, 50)];
    [$where, $values] = isset($_GET['@GROUP@']) ? ['where @GROUP@ = ?', [$_GET['@GROUP@']]] : ['', []];
    $query = 'select ' . COLUMNS . " from @TABLE@ $where order by price, id limit ? offset ?";
    $items = rows($query, [...$values, $size, ($page - 1) * $size]);
    $total = rows("select count(*) as n from @TABLE@ $where", $values)[0]['n'];
    give(['total' => $total, 'page' => $page, 'items' => $items]);
}
if ($method === 'GET' && $path === '/@TABLE@/search') {
    $text = preg_replace('/[!%_]/', '!$0', $_GET['q'] ?? '');
    give(rows('select ' . COLUMNS . " from @TABLE@ where title like ? escape '!' order by id", ["%$text%"]));
}
if (preg_match('#^/@TABLE@/([0-9]+)$#D', $path, $m)) {
    $found = rows('select ' . COLUMNS . ' from @TABLE@ where id = ?', [(int) $m[1]]);
    if (!$found) give(['error' => 'no such row'], 404);
    if ($method === 'DELETE') {
        rows('delete from @TABLE@ where id = ?', [(int) $m[1]]);
        http_response_code(204);
        exit;
    }
    give($found[0]);
}
if ($method === 'POST' && $path === '/@TABLE@') {
    $new = json_decode(file_get_contents('php://input'), true);
    if (!is_array($new)) give(['error' => 'no object'], 400);
    [$title, $group, $price] = [$new['title'] ?? null, $new['@GROUP@'] ?? null, $new['price'] ?? null];
    if (!is_string($title) || trim($title) === '' || !is_string($group) || trim($group) === '') {
        give(['error' => 'text'], 400);
    }
    if (!is_int($price) || $price < 0) give(['error' => 'price'], 400);
    rows('insert into @TABLE@(title, @GROUP@, price) values (?, ?, ?)', [$title, $group, $price]);
    give(['id' => (int) $base->lastInsertId(), 'title' => $title, '@GROUP@' => $group, 'price' => $price], 201);
}
give(['error' => 'nothing here'], 404);
"""


class _Fault(NamedTuple):
    """A text of the sound program, and what the planted fault has in its place."""

    sound: str
    faulty: str


_IN_FLASK = {
    "injection": _Fault(
        """like ? escape '!' order by id"\n    return give(rows(query, [f"%{text}%"]))""",
        """like '%" + text + "%' escape '!' order by id"\n    return give(rows(query))""",
    ),
    "wildcards": _Fault('for sign in "!%_"', 'for sign in "!"'),
    "offset": _Fault("(page - 1) * size", "page * size"),
    "absent_row": _Fault(
        'give(found[0]) if found else give({"error": "no such row"}, 404)', "give(found[0] if found else {})"
    ),
    "encoding": _Fault('.encode("utf-8")', '.encode("latin-1", "replace")'),
    "text_order": _Fault("order by price, id limit", "order by cast(price as text), id limit"),
    "not_committed": _Fault("    link.commit()\n", ""),
    "blank_title": _Fault("or not title.strip() ", ""),
    "boolean_price": _Fault("type(price) is not int", "not isinstance(price, int)"),
    "total": _Fault('"total": total', '"total": len(found)'),
    "large_size": _Fault('number("size", 10, 50)', 'number("size", 10, 10**9)'),
}
_IN_PHP = {
    "injection": _Fault(
        """like ? escape '!' order by id", ["%$text%"]""",
        """like '%$text%' escape '!' order by id\"""",
    ),
    "wildcards": _Fault("[!%_]", "[!]"),
    "offset": _Fault("($page - 1) * $size", "$page * $size"),
    "absent_row": _Fault("give(['error' => 'no such row'], 404)", "give(['error' => 'no such row'])"),
    "text_order": _Fault("order by price, id limit", "order by cast(price as text), id limit"),
    "blank_title": _Fault("|| trim($title) === '' ", ""),
    "negative_price": _Fault(" || $price < 0", ""),
    "total": _Fault("'total' => $total", "'total' => count($items)"),
    "large_size": _Fault("number('size', 10, 50)", "number('size', 10, 10 ** 9)"),
    "kept_row": _Fault("rows('delete from @TABLE@ where id = ?', [(int) $m[1]]);", "rows('select 1');"),
}
_VERIFIER = '''
import http.client
import json
import urllib.parse

PORT, TABLE, GROUP = __PLACE__
ROWS = __ROWS__
NAMES = ("id", "title", GROUP, "price")


def turn(method, path, value=None):
    link = http.client.HTTPConnection("127.0.0.1", PORT, timeout=3)
    link.request(method, f"/{TABLE}{path}", value if value is None or type(value) is bytes else json.dumps(value))
    reply = link.getresponse()
    content = reply.read()
    link.close()
    if content:
        assert reply.headers.get_content_type() == "application/json", path
    return reply.status, json.loads(content.decode("utf-8")) if content else None


def page(**wish):
    return turn("GET", "?" + urllib.parse.urlencode(wish) if wish else "")


def swept():
    """The given rows as objects, once whatever an earlier visit made is gone."""
    for row in turn("GET", "/search?q=probe+row")[1]:
        turn("DELETE", f"/{row['id']}")
    return sorted((dict(zip(NAMES, row)) for row in ROWS), key=lambda row: (row["price"], row["id"]))


def test_pages_are_cut_ordered_and_counted():
    rows = swept()
    assert page() == (200, {"total": len(rows), "page": 1, "items": rows[:10]})
    assert page(page=2) == (200, {"total": len(rows), "page": 2, "items": rows[10:20]})
    assert page(page=3, size=7) == (200, {"total": len(rows), "page": 3, "items": rows[14:21]})
    assert page(page=900)[1]["items"] == [] and page(size=50)[1]["items"] == rows[:50]
    for group in sorted({row[GROUP] for row in rows})[:3] + ["none' or 1=1 --"]:
        own = [row for row in rows if row[GROUP] == group]
        assert page(size=2, **{GROUP: group})[1] == {"total": len(own), "page": 1, "items": own[:2]}
    faulty = ({"page": 0}, {"page": "x"}, {"size": 0}, {"size": 51}, {"size": -3}, {"page": "1.5"})
    assert [page(**wish)[0] for wish in faulty] == [400] * len(faulty)


def test_search_takes_every_sign_as_itself():
    rows = sorted(swept(), key=lambda row: row["id"])
    for text in ("a", "THE", "%", "_", "\\\\", "'", "' or '1'='1", "100%", "zzzz", '"'):
        own = [row for row in rows if text.lower() in row["title"].lower()]
        assert turn("GET", "/search?" + urllib.parse.urlencode({"q": text})) == (200, own), text
    assert sum("%" in row["title"] for row in rows) < len(rows)


def test_single_rows_and_those_that_are_not_there():
    rows = swept()
    assert all(turn("GET", f"/{row['id']}") == (200, row) for row in rows[::7])
    for method in ("GET", "DELETE"):
        status, said = turn(method, "/999999")
        assert status == 404 and "error" in said, method
    assert turn("GET", "")[1]["total"] == len(rows)


def test_rows_are_made_and_removed_for_good():
    count = len(swept())
    new = {"title": "Probe row – ž 🌱", GROUP: "probes", "price": 1250}
    status, made = turn("POST", "", new)
    assert status == 201 and made == {"id": made["id"], **new}
    assert turn("GET", f"/{made['id']}") == (200, made) and page()[1]["total"] == count + 1
    assert turn("DELETE", f"/{made['id']}") == (204, None)
    assert turn("GET", f"/{made['id']}")[0] == 404 and page()[1]["total"] == count


def test_faulty_rows_are_refused():
    count = len(swept())
    good = {"title": "Probe row", GROUP: "probes", "price": 5}
    faulty = [{**good, "title": " "}, {**good, "title": 5}, {**good, GROUP: ""}, {**good, "price": -1}, [good],
              {**good, "price": "5"}, {**good, "price": True}, {**good, "price": 1.5}, {"title": "Probe row"}, b"",
              b"{broken"]
    assert [turn("POST", "", value)[0] for value in faulty] == [400] * len(faulty)
    assert page()[1]["total"] == count
'''
_NOUNS = ("Lamp", "Kettle", "Atlas", "Rope", "Clock", "Tent", "Drum", "Easel", "Quilt", "Chest", "Ladle", "Globe")
_KINDS = (
    "100% wool",
    "the old",
    "dad's",
    'a 5"',
    "müde",
    "half_size",
    "naïve",
    "plain",
    "The Grand",
    "back\\slash",
    "łódź",
)


def _planted(program: str, faults: dict[str, _Fault], names: list[str]) -> str:
    for name in names:
        if faults[name].sound not in program:
            raise ValueError(f"nothing to plant {name} in")
        program = program.replace(faults[name].sound, faults[name].faulty)
    return program


def _rows(rng: random.Random, groups: tuple[str, ...]) -> list[tuple[object, ...]]:
    made = []
    for key in rng.sample(range(1, 400), 64):
        title = f"{rng.choice(_KINDS)} {rng.choice(_NOUNS)} {rng.choice(('', 'no. 7', 'XL'))}".strip()
        made.append(
            (key, title, rng.choice(groups), rng.choice((5, 45, 99, 150, 700, 1200, 8000, 9900, 12500, 100000)))
        )
    return sorted(made)


def repair(seed: int, context: Context) -> Draft:
    rng = chance("web_service", "repair", seed)
    title, table, group, groups = (
        ("Flea market", "offers", "stall", ("north", "south", "café", "yard")),
        ("Tool library", "tools", "shelf", ("A-1", "B-2", "côté", "C-3")),
        ("Museum shop", "articles", "room", ("foyer", "garden", "Öl", "crypt")),
        ("Props store", "props", "scene", ("act I", "act II", "entrée", "finale")),
    )[seed % 4]
    port, data = rng.randint(7100, 7900), f"/work/{table}.db"
    in_php = seed % 2 == 1
    faults = _IN_PHP if in_php else _IN_FLASK
    values = {"port": port, "data": data, "table": table, "group": group}
    # Searching with quotes needs both to be seen apart.
    names = rng.sample([name for name in faults if name != "wildcards"], 4 if seed < 2 else 5)
    if "injection" not in names:
        names.append("wildcards")
    path = f"/work/service.{'php' if in_php else 'py'}"
    sound, other = (_PHP, _FLASK) if in_php else (_FLASK, _PHP)
    rows = _rows(rng, groups)
    script = f"create table {table}(id integer primary key autoincrement, title text, {group} text, price integer);\n"
    script += "".join(
        "insert into {} values({}, '{}', '{}', {});\n".format(table, key, str(name).replace("'", "''"), place, price)
        for key, name, place, price in rows
    )

    def run(program: str, php: bool) -> tuple[str, ...]:
        file = path if php == in_php else f"/work/again.{'php' if php else 'py'}"
        start = f"php -S 127.0.0.1:{port} {file}" if php else f"python3 {file}"
        return (written(file, put_in(program, **values)), started(start, port))

    return Draft(
        family="repair",
        seed=seed,
        difficulty="hard",
        language="php" if in_php else "python",
        instruction=f"Our {title.lower()} service ({path}, {'PHP' if in_php else 'Flask'}, data in {data}) was "
        f"rewritten in a hurry and customers complain: wrong lists, odd answers, and somebody managed to see more than "
        "he should. /work/SPEC.md says what it has to do. Go through it point by point, find where the program "
        f"deviates and put that right; there are several places, and no error shows up in a log. Then start the "
        f"service on 127.0.0.1:{port} and leave it running, with the rows that are in the data file now. If you would "
        "rather write it anew, in whatever language, that is fine with me too, as long as it uses the same data file "
        "and answers to the specification.",
        files=(
            TaskFile(path=path, text=put_in(_planted(sound, faults, names), **values).lstrip()),
            TaskFile(path="/work/SPEC.md", text=put_in(_SPEC, title=title, **values)),
            TaskFile(path="/work/rows.sql", text=script),
        ),
        setup=(f"sqlite3 {data} < /work/rows.sql", "rm /work/rows.sql"),
        solution=run(sound, in_php),
        right=(Variant(name="written_anew", commands=run(other, not in_php)),),
        weak=(
            *(Variant(name=f"left_{name}", commands=run(_planted(sound, faults, [name]), in_php)) for name in names),
            Variant(name="started_as_it_was", commands=run(_planted(sound, faults, names), in_php)),
        ),
        verifier=filled(_VERIFIER, place=(port, table, group), rows=rows),
        state_scope="live",
    )
