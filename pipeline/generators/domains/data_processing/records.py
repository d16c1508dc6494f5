"""Records of a machine's history: lines of a web log as visits, nested orders as tables."""

from __future__ import annotations

import json
from random import Random

from pipeline.generators.domains.data_processing.heredoc import altered, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

Request = tuple[int, str, str, str, int, int]
"""Second since midnight, address, browser, path, status, bytes."""

BROWSERS = ("Mozilla/5.0 (X11; Linux)", "curl/8.1", "Mozilla/5.0 (iPhone)", "ExampleBot/2.1 (+crawler)")
PATHS = ("/", "/shop", "/shop/cart", "/news?page=2", "/login", "/static/site.css", "/static/logo.png")
SESSIONS = """
import json, re
from datetime import datetime, timezone

LINE = re.compile(r'(\\S+) \\S+ \\S+ \\[([^]]+)\\] "(\\S+) (\\S+) [^"]*" (\\d+) (\\d+|-) "[^"]*" "([^"]*)"')
requests = []
for line in open("/work/access.log"):
    found = LINE.fullmatch(line.strip())
    if not found:
        continue
    address, moment, method, path, status, size, browser = found.groups()
    if __SKIP__:
        continue
    moment = datetime.strptime(moment, "%d/%b/%Y:%H:%M:%S %z").astimezone(timezone.utc)
    requests.append((moment, address, browser, path, int(status), 0 if size == "-" else int(size)))
requests.sort(key=lambda r: r[0])
visits, last = [], {}
for moment, address, browser, path, status, size in requests:
    who = __WHO__
    visit = last.get(who)
    if visit is None or (moment - visit["to"]).total_seconds() > __GAP__:
        visit = last[who] = {"address": address, "from": moment, "hits": 0, "errors": 0, "bytes": 0, "entry": path}
        visits.append(visit)
    visit.update({"to": moment, "exit": path})
    visit["hits"] += 1
    visit["errors"] += status >= 400
    visit["bytes"] += size
visits.sort(key=lambda v: (v["from"], v["address"]))
with open("/work/visits.jsonl", "w") as out:
    for visit in visits:
        for key in ("from", "to"):
            visit[key] = visit[key].strftime("%Y-%m-%dT%H:%M:%SZ")
        print(json.dumps(visit), file=out)
"""
VERIFY_SESSIONS = """
import json

VISITS = __VISITS__


def visits(box):
    lines = box.text("/work/visits.jsonl").strip().split("\\n")
    return [json.loads(line) for line in lines]


def test_as_many_visits_as_there_were(box):
    assert len(visits(box)) == len(VISITS)


def test_bounds_of_each_visit_in_order(box):
    bounds = [(v["from"], v["to"], v["address"]) for v in visits(box)]
    assert bounds == [(v["from"], v["to"], v["address"]) for v in VISITS]


def test_what_happened_during_each_visit(box):
    assert visits(box) == VISITS
"""
KINDS = (
    (1800, "address", "", 0),
    (900, "address and user agent", "requests whose path begins with /static/", 2),
    (1200, "address and user agent", "requests of user agents that contain `Bot`", -5),
    (600, "address", "requests whose method is not GET", 1),
)
SKIPPING = ("False", 'path.startswith("/static/")', '"Bot" in browser', 'method != "GET"')


def _log(rng: Random, gap: int) -> list[tuple[Request, str]]:
    """Requests with their methods, in the order of time; pauses of exactly the gap occur."""
    found = []
    for host in rng.sample(range(2, 90), 5):
        second = rng.randint(3000, 9000)
        address = f"10.3.{host % 4}.{host}"
        for _ in range(rng.randint(7, 13)):
            second += rng.choice((gap, gap, gap + 1, gap - 1, 37, 215, 2 * gap, 61))
            status = rng.choice((200, 200, 304, 404, 500))
            size = 0 if status == 304 else rng.randint(90, 9000)
            method = rng.choice(("GET",) * 7 + ("POST", "HEAD"))
            browser = BROWSERS[(host + rng.randint(0, 1)) % 4]
            found.append(((second, address, browser, rng.choice(PATHS), status, size), method))
    return sorted(set(found), key=lambda entry: entry[0][:2])


def _stamp(second: int, zone: int, style: str) -> str:
    second += zone * 3600 if style == "log" else 0
    day, rest = 14 + second // 86400, second % 86400
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{day}/Mar/2023:{clock} {zone:+03d}00" if style == "log" else f"2023-03-{day}T{clock}Z"


def _visits(log: list[tuple[Request, str]], kind: int) -> list[dict[str, str | int]]:
    gap, who, _, _ = KINDS[kind]
    skip = (
        lambda r, m: False,
        lambda r, m: r[3].startswith("/static/"),
        lambda r, m: "Bot" in r[2],
        lambda r, m: m != "GET",
    )[kind]
    groups: dict[str, list[list[Request]]] = {}
    for request, method in log:
        if skip(request, method):
            continue
        visits = groups.setdefault(request[1] + (request[2] if "agent" in who else ""), [])
        if not visits or request[0] - visits[-1][-1][0] > gap:
            visits.append([])
        visits[-1].append(request)
    runs = sorted((run for group in groups.values() for run in group), key=lambda run: run[0][:2])
    return [
        {
            "address": run[0][1],
            "from": _stamp(run[0][0], 0, "iso"),
            "to": _stamp(run[-1][0], 0, "iso"),
            "hits": len(run),
            "errors": sum(request[4] >= 400 for request in run),
            "bytes": sum(request[5] for request in run),
            "entry": run[0][3],
            "exit": run[-1][3],
        }
        for run in runs
    ]


def sessions(seed: int, context: Context) -> Draft:
    rng = chance("data_processing", "sessions", seed)
    kind = seed % len(KINDS)
    gap, who, without, zone = KINDS[kind]
    log = _log(rng, gap)
    lines = [
        f'{r[1]} - - [{_stamp(r[0], zone, "log")}] "{method} {r[3]} HTTP/1.1" {r[4]} {r[5] or "-"} "-" "{r[2]}"'
        for r, method in log
    ]
    # Servers write a request when it ends, and two of them wrote this log: lines are out of order.
    lines = lines[3::4] + lines[::4] + lines[1::4] + lines[2::4]
    lines.insert(7, "::1 - - server restarted")
    key = "(address, browser)" if "agent" in who else "address"
    text = altered(SESSIONS, ("__SKIP__", SKIPPING[kind]), ("__WHO__", key), ("__GAP__", str(gap)))
    script = python(text)
    return Draft(
        family="sessions",
        seed=seed,
        difficulty="hard",
        language="python",
        instruction="Marketing wants visits instead of hits. /work/access.log is in Apache's combined format; its "
        "lines "
        "are not strictly ordered by time, and a line that is no request at all is to be ignored"
        + (f", and so are {without}" if without else "")
        + f". A visit is a run of requests with the same {who} in which no pause between one request and the next is "
        f"longer than {gap // 60} minutes (exactly {gap // 60} minutes still belongs to it). Write /work/visits.jsonl, "
        "one JSON object per line, ordered by start and then by address as text: `address`, `from` and `to` (time of "
        "the first and last request in UTC, like 2023-03-14T05:06:07Z), `hits`, `errors` (requests with a status of "
        "400 "
        "or more), `bytes` (sum of the sizes, `-` is zero), `entry` and `exit` (path of the first and last request as "
        "logged, with its query). Mind the time zone of the log.",
        files=(TaskFile(path="/work/access.log", text="\n".join(lines) + "\n"),),
        solution=(script,),
        right=(Variant(name="compact_with_sorted_keys", commands=(_by_address(text),)),),
        weak=(
            Variant(
                name="gap_itself_divides", commands=(altered(script, (".total_seconds() >", ".total_seconds() >=")),)
            ),
            Variant(name="order_of_the_file", commands=(altered(script, ("requests.sort(key=lambda r: r[0])\n", "")),)),
            Variant(name="only_server_errors", commands=(altered(script, ("status >= 400", "status >= 500")),)),
            Variant(name="from_the_start", commands=(altered(script, ('visit["to"]).total', 'visit["from"]).total')),)),
        ),
        verifier=filled(VERIFY_SESSIONS, visits=_visits(log, kind)),
    )


def _by_address(text: str) -> str:
    """The same visits, found visitor by visitor, with other white space in the JSON."""
    return python(
        altered(
            text,
            ("requests.sort(key=lambda r: r[0])", "requests.sort(key=lambda r: (r[1], r[2], r[0]))")
            if "(address, browser)" in text
            else ("requests.sort(key=lambda r: r[0])", "requests.sort(key=lambda r: (r[1], r[0]))"),
            ("json.dumps(visit)", "json.dumps(visit, sort_keys=True, separators=(',', ':'))"),
        )
    )


SHAPES = (
    ("orders", "lines", "order_id", "sku", "payments", "method"),
    ("flights", "legs", "flight_id", "airport", "crew", "role"),
    ("albums", "tracks", "album_id", "title", "credits", "part"),
    ("recipes", "steps", "recipe_id", "action", "ingredients", "item"),
)
FLATTEN = """
import csv, json

top, one, key, what, two, kind = __NAMES__
documents = json.load(open(f"/work/{top}.json"))["data"]
tables = {top: [[key, "owner", "city", "tags"]], one: [[key, "position", what, "amount"]], two: [[key, kind, "share"]]}
for document in documents:
    number = document["meta"]["id"]
    owner = document.get("owner") or {}
    city = (owner.get("address") or {}).get("city", "")
    tables[top].append([number, owner.get("name", ""), city, "|".join(sorted(document.get("tags") or []))])
    for position, part in enumerate(document.get(one) or [], 1):
        tables[one].append([number, position, part[what], part.get("amount", "")])
    for name, share in (document.get(two) or {}).items():
        tables[two].append([number, name, share])
for name, rows in tables.items():
    with open(f"/work/tables/{name}.csv", "w", newline="") as out:
        csv.writer(out, lineterminator="\\n").writerows([rows[0], *sorted(rows[1:], key=lambda r: (r[0], r[1]))])
"""
VERIFY_FLATTEN = """
import csv
import io

TABLES = __TABLES__


def rows_of(box, name):
    return [tuple(row) for row in csv.reader(io.StringIO(box.text(f"/work/tables/{name}.csv")))]


def test_main_table(box):
    name = __TOP__
    assert rows_of(box, name) == [tuple(row) for row in TABLES[name]]


def test_both_detail_tables(box):
    details = {name: rows_of(box, name) for name in TABLES if name != __TOP__}
    assert {name: rows[0] for name, rows in details.items()} == {n: tuple(TABLES[n][0]) for n in details}
    assert details == {name: list(map(tuple, TABLES[name])) for name in details}


def test_details_refer_to_rows_of_the_main_table(box):
    known = {row[0] for row in rows_of(box, __TOP__)[1:]}
    referring = [row[0] for name in TABLES if name != __TOP__ for row in rows_of(box, name)[1:]]
    assert referring and set(referring) <= known
"""


def _documents(rng: Random, shape: tuple[str, ...]) -> tuple[str, dict[str, list[list[str]]]]:
    """JSON of the documents, and the tables that they make."""
    top, one, key, what, two, kind = shape
    tables = {
        top: [[key, "owner", "city", "tags"]],
        one: [[key, "position", what, "amount"]],
        two: [[key, kind, "share"]],
    }
    words = ["alpha", "delta, late", "river", 'the "new"', "stone", "óptima"]
    documents = []
    for number in sorted(rng.sample(range(100, 999), 14)):
        owner: dict[str, object] | None = {"name": rng.choice(words), "address": {"city": rng.choice(("Lyon", "Gent"))}}
        if rng.random() < 0.25:
            poor: tuple[dict[str, object] | None, ...] = (
                None,
                {"name": "no, address"},
                {"name": "anna", "address": None},
            )
            owner = rng.choice(poor)
        tags = rng.choice((None, ["b", "a"], [], ["red", "blue", "new"]))
        parts = [{what: rng.choice(words), "amount": rng.randint(1, 40)} for _ in range(rng.randint(0, 4))]
        if parts and rng.random() < 0.4:
            del parts[0]["amount"]
        shares = {name: rng.randint(1, 99) for name in rng.sample(("a1", "b2", "c3", "d4"), rng.randint(0, 3))}
        document: dict[str, object] = {"meta": {"id": number}, "owner": owner, "tags": tags, one: parts, two: shares}
        documents.append({name: value for name, value in document.items() if value or rng.random() < 0.5})
        person = owner or {}
        address = person.get("address")
        city = str(address["city"]) if isinstance(address, dict) else ""
        tables[top].append([str(number), str(person.get("name", "")), city, "|".join(sorted(tags or []))])
        tables[one] += [
            [str(number), str(place), str(part[what]), str(part.get("amount", ""))]
            for place, part in enumerate(parts, 1)
        ]
        tables[two] += [[str(number), name, str(share)] for name, share in sorted(shares.items())]
    rng.shuffle(documents)
    return json.dumps({"version": 3, "data": documents}, indent=1, ensure_ascii=False), tables


def flatten_json(seed: int, context: Context) -> Draft:
    rng = chance("data_processing", "flatten_json", seed)
    shape = SHAPES[seed % len(SHAPES)]
    top, one, key, what, two, kind = shape
    text, tables = _documents(rng, shape)
    script = "mkdir -p /work/tables\n" + python(filled(FLATTEN, names=shape))
    jq = {
        top: '[.meta.id, (.owner.name // ""), (.owner.address.city // ""), ((.tags // []) | sort | join("|"))]',
        one: f'.meta.id as $i | (.{one} // []) | to_entries[] | [$i, .key + 1, .value.{what}, (.value.amount // "")]',
        two: f".meta.id as $i | (.{two} // {{}}) | to_entries | sort_by(.key)[] | [$i, .key, .value]",
    }
    python_quotes = python(
        "import csv, glob\nfor name in glob.glob('/work/tables/*.csv'):\n"
        "    rows = list(csv.reader(open(name)))\n    csv.writer(open(name, 'w')).writerows(rows)"
    )
    by_jq = tuple(
        f"mkdir -p tables && (echo {','.join(tables[name][0])}; jq -r '.data | sort_by(.meta.id)[] | {program} | @csv' "
        f"{top}.json) > tables/{name}.csv"
        for name, program in jq.items()
    )
    return Draft(
        family="flatten_json",
        seed=seed,
        difficulty="medium",
        language="python",
        instruction=f"/work/{top}.json came out of a document store: its member `data` is a list of nested "
        f"documents, in "
        "which any member except `meta.id` may be absent, null or empty. The warehouse needs three flat files with a "
        f"header line in the folder /work/tables (make it). {top}.csv: `{key},owner,city,tags`, one row per document: "
        "meta.id, name of the owner, city of the owner's address, tags in alphabetical order joined by `|`. "
        f"{one}.csv: `{key},position,{what},amount`, one row per element of `{one}`, position counted from 1 within "
        f"the "
        f"document. {two}.csv: `{key},{kind},share`, one row per member of the object `{two}`, its name and its value. "
        f"What is missing is an empty cell. Sort by {key} as a number, then by the second column ({one}.csv as a "
        f"number). "
        "Commas and double quotes occur in texts: quote as usual in CSV. UTF-8.",
        files=(TaskFile(path=f"/work/{top}.json", text=text),),
        solution=(script,),
        right=(
            Variant(name="jq", commands=by_jq),
            Variant(name="other_line_ends", commands=(script, python_quotes)),
        ),
        weak=(
            Variant(name="position_from_zero", commands=(altered(script, (" or [], 1)", " or [], 0)")),)),
            Variant(name="tags_unsorted", commands=(altered(script, ("sorted(document.get", "list(document.get")),)),
            Variant(name="no_details", commands=(script, f"head -n 1 tables/{two}.csv > h && mv h tables/{two}.csv")),
            Variant(name="unsorted", commands=(altered(script, ("key=lambda r: (r[0], r[1])", "key=lambda r: 0")),)),
        ),
        verifier=filled(VERIFY_FLATTEN, tables=tables, top=top),
    )
