"""Redis with given data and rules, asked by its own protocol over a socket."""

from __future__ import annotations

import random
import shlex
from dataclasses import dataclass
from typing import Literal

from pipeline.generators.domains.web_service.commands import put_in, written
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_FIRST = ("ada", "bela", "cem", "dora", "emil", "fay", "gus", "hana", "ivo", "jana", "kofi", "lena", "mona", "nils")
_PLACES = ("Lyon", "Oslo", "Turin", "Graz", "Porto", "Split", "Ghent", "Cork")
_VERIFIER = '''
import socket

PORT, SECRET = __PORT__, __SECRET__
EXPECTED = __EXPECTED__


class Line:
    """One connection that speaks RESP."""

    def __init__(self, user=None, secret=SECRET):
        self.channel = socket.create_connection(("127.0.0.1", PORT), timeout=3)
        self.reader = self.channel.makefile("rb")
        if secret:
            assert self.ask("AUTH", *([user] if user else []), secret) == "OK"

    def ask(self, *words):
        encoded = [str(word).encode() for word in words]
        parts = b"".join(b"$%d\\r\\n%s\\r\\n" % (len(word), word) for word in encoded)
        self.channel.sendall(b"*%d\\r\\n%s" % (len(encoded), parts))
        return self.taken()

    def taken(self):
        head = self.reader.readline().decode().rstrip("\\r\\n")
        kind, rest = head[:1], head[1:]
        if kind in "+-":
            return rest
        if kind == ":":
            return int(rest)
        if kind == "$":
            return None if rest == "-1" else self.reader.read(int(rest) + 2)[:-2].decode()
        return [self.taken() for _ in range(int(rest))]

    def setting(self, name):
        return self.ask("CONFIG", "GET", name)[1]


def test_nobody_gets_in_without_the_password():
    assert Line(secret=None).ask("PING").startswith("NOAUTH")
    assert Line(secret=None).ask("AUTH", SECRET + "x").startswith("WRONGPASS")

'''


@dataclass(frozen=True)
class _Store:
    """What Redis has to hold, and by which rules."""

    difficulty: Literal["easy", "medium", "hard"]
    wish: str
    files: dict[str, str]
    conf: str
    fill: str
    """A Python program that prints commands of Redis."""
    other: str
    """Another program to the same end."""
    expected: object
    tests: str
    weak: dict[str, tuple[str, str]]


def _cache(rng: random.Random, port: int) -> _Store:
    memory = rng.choice((16, 24, 48))
    policy = rng.choice(("allkeys-lru", "volatile-ttl", "allkeys-lfu"))
    seeds = {f"page:{rng.randint(100, 999)}:{name}": f"{name} {rng.randint(1, 99)}" for name in rng.sample(_FIRST, 5)}
    return _Store(
        difficulty="easy",
        wish=f"It is a cache: at most {memory} MiB of memory, evicted by the policy {policy}, nothing ever written to "
        "disk (no snapshots, no append-only file), 4 databases. Fill database 0 with the keys and values of "
        "/work/warm.txt (key, TAB, value) as strings.",
        files={"/work/warm.txt": "".join(f"{key}\t{value}\n" for key, value in seeds.items())},
        conf=f'maxmemory {memory}mb\nmaxmemory-policy {policy}\nsave ""\nappendonly no\ndatabases 4',
        fill="for line in open('/work/warm.txt'):\n    key, value = line.rstrip('\\n').split('\\t')\n"
        "    print(f'SET {key} \"{value}\"')",
        other="print('MSET', *(f'\"{w}\"' for l in open('/work/warm.txt') for w in l.rstrip('\\n').split('\\t')))",
        expected={"memory": str(memory << 20), "policy": policy, "pages": seeds},
        tests="""
def test_it_is_a_cache_with_these_rules():
    line = Line()
    assert [line.setting(name) for name in ("maxmemory", "maxmemory-policy", "save", "appendonly", "databases")] == [
        EXPECTED["memory"], EXPECTED["policy"], "", "no", "4"
    ]


def test_it_is_warm():
    line = Line()
    assert {key: line.ask("GET", key) for key in EXPECTED["pages"]} == EXPECTED["pages"]
    assert line.ask("TTL", next(iter(EXPECTED["pages"]))) == -1
""",
        weak={
            "snapshots_on": ('save ""', "save 900 1"),
            "no_bound": ("maxmemory ", "# maxmemory "),
            "value_cut_at_space": ("split('\\t')", "split()[:2]"),
        },
    )


def _board(rng: random.Random, port: int) -> _Store:
    rows = [(rng.choice(_FIRST), rng.randint(10, 60) * 5, rng.choice(("win", "loss"))) for _ in range(160)]
    totals: dict[str, int] = {}
    best: dict[str, int] = {}
    for name, points, result in rows:
        totals[name] = totals.get(name, 0) + (points if result == "win" else -5)
        best[name] = max(best.get(name, 0), points)
    return _Store(
        difficulty="medium",
        wish="It holds the standings of our league, made from /work/games.csv (with header): a sorted set `standings` "
        "whose score per player is the sum of the points of won games minus 5 for each lost game, and a hash "
        "`best` with the highest points of each player in any game, won or lost. No other keys in database 0. "
        "Every write has to reach the append-only file at once (fsync always).",
        files={"/work/games.csv": "player,points,result\n" + "".join(f"{n},{p},{r}\n" for n, p, r in rows)},
        conf="appendonly yes\nappendfsync always",
        fill="import csv\nbest = {}\nfor row in csv.DictReader(open('/work/games.csv')):\n"
        "    name, points = row['player'], int(row['points'])\n"
        "    print('ZINCRBY standings', points if row['result'] == 'win' else -5, name)\n"
        "    best[name] = max(best.get(name, 0), points)\n"
        "for name in best:\n    print('HSET best', name, best[name])",
        other="import csv, collections\nsums, top = collections.Counter(), collections.Counter()\n"
        "for name, points, result in list(csv.reader(open('/work/games.csv')))[1:]:\n"
        "    sums[name] += int(points) if result == 'win' else -5\n    top[name] = max(top[name], int(points))\n"
        "print('ZADD standings', *(f'{s} {n}' for n, s in sums.items()))\n"
        "print('HMSET best', *(f'{n} {p}' for n, p in top.items()))",
        expected={"totals": {k: float(v) for k, v in totals.items()}, "best": {k: str(v) for k, v in best.items()}},
        tests="""
def test_the_standings_are_right():
    flat = Line().ask("ZRANGE", "standings", 0, -1, "WITHSCORES")
    assert dict(zip(flat[::2], map(float, flat[1::2]), strict=True)) == EXPECTED["totals"]


def test_the_best_game_of_each_player():
    line = Line()
    flat = line.ask("HGETALL", "best")
    assert dict(zip(flat[::2], flat[1::2], strict=True)) == EXPECTED["best"]
    assert sorted(line.ask("KEYS", "*")) == ["best", "standings"]


def test_writes_are_kept():
    line = Line()
    assert [line.setting("appendonly"), line.setting("appendfsync")] == ["yes", "always"]
""",
        weak={
            "losses_ignored": (" else -5", " else 0"),
            "last_instead_of_best": ("max(best.get(name, 0), points)", "points"),
            "every_second": ("appendfsync always", "appendfsync everysec"),
            "lost_points_taken_away": (" else -5", " else -points"),
        },
    )


def _users(rng: random.Random, port: int) -> _Store:
    app, watch = rng.sample(("billing", "frontdesk", "kiosk", "mailer"), 2)
    keys, first, second = rng.choice(("cart", "job", "seat")), rng.randrange(1 << 32), rng.randrange(1 << 32)
    words = [rng.choice((keys, f"{keys}s", f"pre{keys}", "other")) for _ in range(180)]
    return _Store(
        difficulty="hard",
        wish=f"Besides that default user it needs two of its own. {app} (password {app}-{first:08x}) may run the "
        f"commands get, set, del and incr, nothing else but what every connection may do, and on keys that begin with "
        f"{keys}: only. {watch} (password {watch}-{second:08x}) may read any key with commands that only read data, "
        "but never change one, and may run ping and info. Neither of them may use CONFIG, ACL, FLUSHALL or KEYS. Then "
        f"store the number of lines of /work/orders.log that contain the word {keys} as the string {keys}:total.",
        files={"/work/orders.log": "".join(f"{n:04d} {word} {rng.choice(_FIRST)}\n" for n, word in enumerate(words))},
        conf=f"user {app} on >{app}-{first:08x} ~{keys}:* +get +set +del +incr +hello +auth +ping\n"
        f"user {watch} on >{watch}-{second:08x} ~* +@read -keys +ping +info",
        fill="import re\nlines = open('/work/orders.log').read().splitlines()\n"
        f"print('SET {keys}:total', sum(bool(re.search(r'\\b{keys}\\b', line)) for line in lines))",
        other=f"print('SET {keys}:total', sum('{keys}' in l.split() for l in open('/work/orders.log')))",
        expected={"count": str(words.count(keys))},
        tests=put_in(
            """
def test_the_application_may_do_four_things():
    line = Line("@APP@", "@APP@-@FIRST@")
    assert line.ask("SET", "@KEYS@:probe", 6) == "OK" and line.ask("INCR", "@KEYS@:probe") == 7
    assert line.ask("GET", "@KEYS@:probe") == "7" and line.ask("DEL", "@KEYS@:probe") == 1
    closed = (["SET", "other", 1], ["GET", "@KEYS@"], ["LPUSH", "@KEYS@:l", 1], ["APPEND", "@KEYS@:total", 1],
              ["CONFIG", "GET", "*"], ["ACL", "LIST"], ["FLUSHALL"], ["KEYS", "*"], ["EXPIRE", "@KEYS@:total", 9])
    assert all(str(line.ask(*words)).startswith("NOPERM") for words in closed)


def test_the_watcher_only_reads():
    line = Line("@WATCH@", "@WATCH@-@SECOND@")
    assert line.ask("GET", "@KEYS@:total") == EXPECTED["count"] and line.ask("PING") == "PONG"
    assert line.ask("EXISTS", "anything") == 0 and "redis_version" in line.ask("INFO", "server")
    closed = (["SET", "@KEYS@:a", 1], ["DEL", "@KEYS@:total"], ["FLUSHALL"], ["KEYS", "*"], ["CONFIG", "GET", "*"])
    assert all(str(line.ask(*words)).startswith("NOPERM") for words in closed)


def test_the_default_user_still_does_everything():
    line = Line()
    assert line.ask("SET", "probe", 1) == "OK" and line.ask("DEL", "probe") == 1
    assert set(line.ask("ACL", "USERS")) == {"default", "@APP@", "@WATCH@"}
""",
            app=app,
            watch=watch,
            keys=keys,
            first=f"{first:08x}",
            second=f"{second:08x}",
        ),
        weak={
            "any_key": (f"~{keys}:* +get", "~* +get"),
            "writes_allowed": ("+@read -keys", "+@read +@write -keys"),
            "keys_allowed": ("+@read -keys", "+@read"),
            "part_of_a_word": (r"\b", ""),
        },
    )


def _sessions(rng: random.Random, port: int) -> _Store:
    rows = [
        (f"{rng.randrange(1 << 28):07x}", rng.choice(_FIRST), rng.choice(_PLACES), rng.choice((0, 3600, 86400, 604800)))
        for _ in range(90)
    ]
    index: dict[str, list[str]] = {}
    for token, _, place, life in rows:
        if life:
            index.setdefault(place.lower(), []).append(token)
    picked = [list(row) for row in rows[:12]]
    return _Store(
        difficulty="medium",
        wish="Load the sign-ins of /work/sessions.tsv (token, user, place, lifetime in seconds; no header): each one "
        "with a lifetime above 0 becomes a hash session:TOKEN with the fields user and place that expires after its "
        "lifetime counted from now, rows with lifetime 0 are skipped. A set place:NAME (NAME in lower case) lists the "
        "tokens of each place and never expires. Use database 3 for all of it. Also make expired keys be published: "
        "keyspace notifications exactly of the kinds K, E and x. Replace nothing else.",
        files={"/work/sessions.tsv": "".join("\t".join(map(str, row)) + "\n" for row in rows)},
        conf="notify-keyspace-events KEx",
        fill="print('SELECT 3')\nfor line in open('/work/sessions.tsv'):\n"
        "    token, user, place, life = line.rstrip('\\n').split('\\t')\n    if life == '0':\n        continue\n"
        "    print('HSET', 'session:' + token, 'user', user, 'place', place)\n"
        "    print('EXPIRE', 'session:' + token, life)\n    print('SADD', 'place:' + place.lower(), token)",
        other="import csv\nprint('SELECT 3')\nfor t, u, p, s in "
        "csv.reader(open('/work/sessions.tsv'), delimiter='\\t'):\n"
        "    if int(s):\n        print(f'SADD place:{p.lower()} {t}\\nHMSET session:{t} place {p} user {u}')\n"
        "        print(f'PEXPIRE session:{t} {int(s) * 1000}')",
        expected={"index": {k: sorted(v) for k, v in index.items()}, "rows": picked},
        tests="""
def test_each_place_lists_its_tokens():
    line = Line()
    assert line.ask("DBSIZE") == 0 and line.ask("SELECT", 3) == "OK"
    places = {f"place:{name}": tokens for name, tokens in EXPECTED["index"].items()}
    assert {key: sorted(line.ask("SMEMBERS", key)) for key in places} == places
    assert sorted(line.ask("KEYS", "place:*")) == sorted(places) and {line.ask("TTL", key) for key in places} == {-1}


def test_sessions_end_after_their_time():
    line = Line()
    line.ask("SELECT", 3)
    assert len(line.ask("KEYS", "session:*")) == sum(map(len, EXPECTED["index"].values()))
    for token, user, place, life in EXPECTED["rows"]:
        if life:
            assert line.ask("HMGET", f"session:{token}", "user", "place") == [user, place]
            assert life - 900 < line.ask("TTL", f"session:{token}") <= life
        else:
            assert line.ask("EXISTS", f"session:{token}") == 0


def test_expired_keys_are_published():
    assert sorted(Line().setting("notify-keyspace-events")) == ["E", "K", "x"]
""",
        weak={
            "first_database": ("print('SELECT 3')", "pass"),
            "never_expires": ("    print('EXPIRE', 'session:' + token, life)", "    pass"),
            "skipped_rows_loaded": ("if life == '0'", "if False"),
            "places_as_written": ("place.lower()", "place"),
        },
    )


def redis_store(seed: int, context: Context) -> Draft:
    rng = chance("web_service", "redis_store", seed)
    port, secret = rng.randint(6380, 6999), f"{rng.choice(_FIRST)}-{rng.randrange(1 << 40):010x}"
    store = (_cache, _board, _users, _sessions)[seed % 4](rng, port)
    conf = f"bind 127.0.0.1\nport {port}\nrequirepass {secret}\ndir /work/redis\ndaemonize yes\n{store.conf}\n"
    ask = f"redis-cli -p {port} --no-auth-warning -a {secret}"
    wait = f"timeout 20 bash -c 'until {ask} ping | grep -q PONG; do sleep 0.1; done'"
    start = (
        "mkdir -p /work/redis",
        written("/work/redis.conf", conf),
        "redis-server /work/redis.conf > /dev/null 2>&1",
        wait,
    )

    def with_fill(program: str) -> tuple[str, ...]:
        return (*start, written("/work/fill.py", program), f"python3 /work/fill.py | {ask} > /dev/null")

    # Given as options, not in a file.
    options = " ".join(
        f"--{line}" for line in conf.splitlines() if not line.startswith("user ") and 'save ""' not in line
    )
    options += " --save ''" if 'save ""' in conf else ""
    users = [f"{ask} ACL SETUSER {shlex.join(line.split()[1:])}" for line in conf.splitlines() if "user " in line]
    right = (
        "mkdir -p /work/redis",
        f"redis-server {options} > /dev/null 2>&1",
        wait,
        *users,
        written("/work/fill.py", store.other),
        f"python3 /work/fill.py | {ask} > /dev/null",
    )
    solution = with_fill(store.fill)
    return Draft(
        family="redis_store",
        seed=seed,
        difficulty=store.difficulty,
        instruction=f"Please bring up a Redis for me on 127.0.0.1:{port} and keep it running. The default user needs "
        f"the password {secret} for everything. {store.wish} redis-server and redis-cli are on this machine; keep "
        "whatever Redis writes below /work/redis.",
        files=tuple(TaskFile(path=path, text=text) for path, text in store.files.items()),
        solution=solution,
        right=(Variant(name="options_and_commands", commands=right),),
        weak=(
            *(
                Variant(name=name, commands=tuple(c.replace(old, new) for c in solution))
                for name, (old, new) in store.weak.items()
            ),
            Variant(name="not_filled", commands=start),
            Variant(
                name="no_password",
                commands=tuple(c.replace(f"requirepass {secret}\n", "").replace(f" -a {secret}", "") for c in solution),
            ),
        ),
        verifier=filled(_VERIFIER, port=port, secret=secret, expected=store.expected) + store.tests,
        state_scope="live",
    )
