"""A booking service written to a contract: values that clash, are malformed, or ask for what is not there."""

from __future__ import annotations

from pipeline.generators.domains.web_service.commands import put_in, started, written
from pipeline.generators.drafts import Context, Draft, chance, filled
from pipeline.types import Variant

_PYTHON = """
import itertools, re
from flask import Flask, jsonify, request

app = Flask(__name__)
PLACES = @PLACES@
TAKEN, NUMBERS = {}, itertools.count(1)
CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]\\Z")

def fault(status, text, **more):
    return jsonify(error=text, **more), status

for status in (400, 404, 405):
    app.register_error_handler(status, lambda error: (jsonify(error=error.name), error.code, dict(
        [("Allow", ", ".join(sorted(error.valid_methods)))] if error.code == 405 else [])))

@app.get("/@PLURAL@")
def listed():
    place = request.args.get("@PLACE@")
    found = [one for one in TAKEN.values() if place in (None, one["@PLACE@"])]
    return jsonify(sorted(found, key=lambda one: (one["@START@"], one["id"])))

@app.post("/@PLURAL@")
def made():
    try:
        wish = request.get_json(force=True)
    except Exception:
        return fault(400, "no JSON")
    if not isinstance(wish, dict) or set(wish) != {"@PLACE@", "@START@", "@END@", "@WHO@"}:
        return fault(422, "fields")
    if not all(isinstance(value, str) for value in wish.values()):
        return fault(422, "types")
    if wish["@PLACE@"] not in PLACES or not wish["@WHO@"].strip():
        return fault(422, "values")
    if not CLOCK.match(wish["@START@"]) or not CLOCK.match(wish["@END@"]) or wish["@START@"] >= wish["@END@"]:
        return fault(422, "times")
    clash = [one["id"] for one in TAKEN.values() if one["@PLACE@"] == wish["@PLACE@"]
             and one["@START@"] < wish["@END@"] and wish["@START@"] < one["@END@"]]
    if clash:
        return fault(409, "taken", conflicts=sorted(clash))
    number = next(NUMBERS)
    TAKEN[number] = {"id": number, **wish}
    return jsonify(TAKEN[number]), 201, {"Location": f"/@PLURAL@/{number}"}

@app.get("/@PLURAL@/<int:number>")
def one(number):
    return jsonify(TAKEN[number]) if number in TAKEN else fault(404, "unknown")

@app.delete("/@PLURAL@/<int:number>")
def freed(number):
    return ("", 204) if TAKEN.pop(number, None) else fault(404, "unknown")

app.run("127.0.0.1", @PORT@)
"""
_PHP = """
<?php
// Router of PHP's built-in server; one process, state in a file.
const PLACES = @PLACES@;
$file = '/work/state.json';
$state = is_file($file) ? json_decode(file_get_contents($file), true) : ['next' => 1, 'all' => []];
$keep = function () use (&$state, $file) { file_put_contents($file, json_encode($state)); };
function give(int $status, $value = null, array $headers = []): void {
    http_response_code($status);
    foreach ($headers as $header) header($header);
    if ($status !== 204) { header('Content-Type: application/json'); echo json_encode($value); }
    exit;
}
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$method = $_SERVER['REQUEST_METHOD'];
if (preg_match('#^/@PLURAL@/([0-9]+)$#D', $path, $m)) {
    if (!in_array($method, ['GET', 'DELETE'], true)) give(405, ['error' => 'method'], ['Allow: DELETE, GET, HEAD']);
    $at = array_search((int) $m[1], array_column($state['all'], 'id'), true);
    if ($at === false) give(404, ['error' => 'unknown']);
    if ($method === 'GET') give(200, $state['all'][$at]);
    array_splice($state['all'], $at, 1);
    $keep();
    give(204);
}
if ($path !== '/@PLURAL@') give(404, ['error' => 'nothing here']);
if ($method === 'GET') {
    $place = $_GET['@PLACE@'] ?? null;
    $all = array_values(array_filter($state['all'], fn($o) => $place === null || $o['@PLACE@'] === $place));
    usort($all, fn($a, $b) => [$a['@START@'], $a['id']] <=> [$b['@START@'], $b['id']]);
    give(200, $all);
}
if ($method !== 'POST') give(405, ['error' => 'method'], ['Allow: GET, POST']);
$wish = json_decode(file_get_contents('php://input'), true);
if (json_last_error() !== JSON_ERROR_NONE) give(400, ['error' => 'no JSON']);
$names = ['@PLACE@', '@START@', '@END@', '@WHO@'];
if (!is_array($wish) || array_diff($names, array_keys($wish)) || count($wish) !== 4) give(422, ['error' => 'fields']);
foreach ($names as $name) if (!is_string($wish[$name])) give(422, ['error' => $name]);
$clock = '/^([01][0-9]|2[0-3]):[0-5][0-9]$/D';
if (!in_array($wish['@PLACE@'], PLACES, true) || trim($wish['@WHO@']) === '' || !preg_match($clock, $wish['@START@'])
    || !preg_match($clock, $wish['@END@']) || strcmp($wish['@START@'], $wish['@END@']) >= 0) {
    give(422, ['error' => 'values']);
}
$clash = [];
foreach ($state['all'] as $o) {
    $meets = strcmp($o['@START@'], $wish['@END@']) < 0 && strcmp($wish['@START@'], $o['@END@']) < 0;
    if ($o['@PLACE@'] === $wish['@PLACE@'] && $meets) $clash[] = $o['id'];
}
sort($clash);
if ($clash) give(409, ['error' => 'taken', 'conflicts' => $clash]);
$new = ['id' => $state['next']++] + $wish;
$state['all'][] = $new;
$keep();
give(201, $new, ["Location: /@PLURAL@/{$new['id']}"]);
"""
_VERIFIER = """
import json
import urllib.error
import urllib.request

BASE = __BASE__
PLURAL, PLACE, START, END, WHO = __NAMES__
PLACES = __PLACES__


def api(method, path="", value=None, raw=None):
    data = raw if value is None else json.dumps(value).encode()
    wish = urllib.request.Request(f"{BASE}/{PLURAL}{path}", data, {"Content-Type": "application/json"}, method=method)
    try:
        reply = urllib.request.urlopen(wish, timeout=3)
    except urllib.error.HTTPError as error:
        reply = error
    with reply:
        text = reply.read()
        if text:
            assert reply.headers.get_content_type() == "application/json", (method, path)
        return reply.status, json.loads(text) if text else None, reply.headers


def booked(place, start, end, who="Ümit"):
    return {PLACE: place, START: start, END: end, WHO: who}


def emptied():
    for one in api("GET")[1]:
        assert api("DELETE", f"/{one['id']}")[0] == 204
    assert api("GET")[:2] == (200, [])


def test_entries_are_made_read_listed_and_removed():
    emptied()
    times = ((0, "14:00", "15:30"), (1, "09:00", "10:00"), (0, "08:15", "09:00"))
    wishes = [booked(PLACES[place], start, end) for place, start, end in times]
    made = [api("POST", value=wish) for wish in wishes]
    numbers = [one["id"] for _, one, _ in made]
    assert [status for status, *_ in made] == [201] * 3 and all(type(number) is int for number in numbers)
    assert [one for _, one, _ in made] == [{"id": n, **wish} for n, wish in zip(numbers, wishes, strict=True)]
    assert made[0][2]["Location"].endswith(f"/{PLURAL}/{numbers[0]}") and numbers == sorted(set(numbers))
    assert [one["id"] for one in api("GET")[1]] == [numbers[2], numbers[1], numbers[0]]
    assert [one["id"] for one in api("GET", f"?{PLACE}={PLACES[0]}")[1]] == [numbers[2], numbers[0]]
    assert api("GET", f"?{PLACE}=nowhere")[:2] == (200, []) and api("GET", f"/{numbers[1]}")[1] == made[1][1]
    assert [api("DELETE", f"/{numbers[1]}")[0], api("GET", f"/{numbers[1]}")[0]] == [204, 404]
    assert api("DELETE", f"/{numbers[1]}")[0] == 404
    assert api("DELETE", f"/{numbers[2]}")[0] == 204
    assert api("POST", value=wishes[2])[1]["id"] > numbers[2]


def test_overlaps_are_refused_and_touching_is_fine():
    emptied()
    first = api("POST", value=booked(PLACES[0], "10:00", "11:00"))[1]["id"]
    second = api("POST", value=booked(PLACES[0], "12:00", "13:00"))[1]["id"]
    clashes = {("09:30", "10:01"): [first], ("10:15", "10:45"): [first], ("09:00", "14:00"): [first, second],
               ("10:00", "11:00"): [first], ("12:59", "20:00"): [second]}
    for (start, end), numbers in clashes.items():
        status, said, _ = api("POST", value=booked(PLACES[0], start, end))
        assert (status, said["conflicts"]) == (409, numbers), (start, end)
    assert api("POST", value=booked(PLACES[1], "10:00", "11:00"))[0] == 201
    touching = (("11:00", "12:00"), ("09:00", "10:00"))
    assert [api("POST", value=booked(PLACES[0], *times))[0] for times in touching] == [201] * 2


def test_faulty_requests_change_nothing():
    emptied()
    good = booked(PLACES[0], "10:00", "11:00")
    faulty = [{**good, PLACE: "nowhere"}, {**good, START: "11:00"}, {**good, START: "12:00"}, {**good, START: "9:00"},
              {**good, END: "24:00"}, {**good, END: "10:60"}, {**good, WHO: "  "}, {**good, WHO: 7}, {**good, "x": "y"},
              {key: value for key, value in good.items() if key != END}, [], "text"]
    assert [api("POST", value=value)[0] for value in faulty] == [422] * len(faulty)
    assert [api("POST", raw=raw)[0] for raw in (b"{broken", b"")] == [400, 400]
    assert api("GET")[:2] == (200, [])


def test_other_methods_and_places():
    status, said, headers = api("PATCH", value={})
    assert status == 405 and {"GET", "POST"} <= {part.strip() for part in headers["Allow"].split(",")}
    number = api("GET")[1]
    status, said, headers = api("PUT", "/1", {})
    assert status == 405 and {"GET", "DELETE"} <= {part.strip() for part in headers["Allow"].split(",")}, number
    assert [api("GET", path)[0] for path in ("/999999", "/abc", "/1/2", "x")] == [404] * 4
    assert isinstance(api("GET", "/999999")[1]["error"], str)
"""


def bookings(seed: int, context: Context) -> Draft:
    rng = chance("web_service", "bookings", seed)
    port = rng.randint(8100, 8999)
    plural, place, names, who = (
        ("bookings", "room", ["Aspen", "Maple", "Cedar"], "by"),
        ("lessons", "teacher", ["Okoro", "Lindt", "Moreau"], "pupil"),
        ("slots", "court", ["north", "centre", "south", "hall"], "player"),
        ("trips", "boat", ["Petrel", "Gannet", "Tern"], "skipper"),
    )[seed % 4]
    start, end = rng.choice((("from", "to"), ("start", "end"), ("begins", "ends")))
    values = {"port": port, "plural": plural, "place": place, "places": names, "start": start, "end": end, "who": who}
    python = (written("/work/app.py", text := put_in(_PYTHON, **values)), started("python3 /work/app.py", port))
    php = (
        "rm -f /work/state.json",
        written("/work/app.php", put_in(_PHP, **values).lstrip()),
        started(f"php -S 127.0.0.1:{port} /work/app.php", port),
    )
    in_php = seed % 2 == 1
    solution, other = (php, python) if in_php else (python, php)
    slips = {
        "touching_clashes": (f'one["{start}"] < wish["{end}"]', f'one["{start}"] <= wish["{end}"]'),
        "same_place_ignored": (f'one["{place}"] == wish["{place}"]', "True"),
        "contained_missed": (f'and wish["{start}"] < one["{end}"]', f'and wish["{start}"] > one["{start}"]'),
        "numbers_used_again": ("next(NUMBERS)", "max(TAKEN, default=0) + 1"),
        "unsorted": (f'key=lambda one: (one["{start}"], one["id"])', 'key=lambda one: one["id"]'),
        "loose_clock": (f'not CLOCK.match(wish["{end}"])', f'len(wish["{end}"]) != 5'),
        "deleting_nothing_succeeds": ("if TAKEN.pop(number, None) else", "if TAKEN.pop(number, None) or True else"),
    }
    picked = ["touching_clashes", "contained_missed", *rng.sample(sorted(slips), 4)]
    return Draft(
        family="bookings",
        seed=seed,
        difficulty="hard",
        language="php" if in_php else "python",
        instruction=f"Write a small HTTP service (PHP 8.2, Node 18 or Python 3 with Flask; whatever you like) for "
        f"{plural} of one day and start it on 127.0.0.1:{port}. An entry has `id` (integer, rising, never used twice), "
        f"`{place}` (one of {', '.join(names)}), `{start}` and `{end}` (HH:MM, 00:00 to 23:59, two digits each, "
        f"{start} before {end}) and `{who}` (text, not blank).\n\nPOST /{plural} with exactly those fields but the id, "
        f"as JSON: 201, the entry, and its path in Location. Body that is no JSON: 400. Missing, further, wrongly "
        f"typed or invalid fields, or no object: 422. If it overlaps with entries of the same {place}: 409 with "
        f"`conflicts`, their ids in rising order; one may begin when another ends.\nGET /{plural}: array of all "
        f"entries by {start}, then id; ?{place}=X only those of X.\nGET and DELETE /{plural}/ID: 200 with the entry, "
        "204 without a body; 404 if there is none.\nOther methods there: 405 with Allow; other paths: 404. Everything "
        "with a body is application/json, faults are objects with a text `error`. Start with no "
        "entries; memory will do as a store.",
        solution=solution,
        right=(Variant(name="other_language", commands=other),),
        weak=(
            *(
                Variant(name=name, commands=(written("/work/app.py", text.replace(*slips[name])), python[1]))
                for name in dict.fromkeys(picked)
            ),
            Variant(name="not_started", commands=solution[:-1]),
        ),
        verifier=filled(
            _VERIFIER, base=f"http://127.0.0.1:{port}", names=(plural, place, start, end, who), places=names
        ),
        state_scope="live",
    )
