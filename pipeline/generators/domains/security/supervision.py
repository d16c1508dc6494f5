"""Exit statuses of services, which a report can explain only after the manual page: a rule, and who broke it."""

from __future__ import annotations

import gzip
import json
import random
import re
from dataclasses import dataclass

from pipeline.generators.domains.security.commands import changed, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

MANUAL = "/srv/manual/exits/sysexits.h.3head.gz"
_SERVICES = ("mailer", "indexer", "gateway", "reports", "ledger", "thumbs", "notify", "archive")
_HOSTS = ("basalt", "chalk", "flint", "gneiss")
_RULES = (
    (("EX_TEMPFAIL",), ("EX_NOPERM",), "whose table entry invites to retry", "for a denied permission"),
    (
        ("EX_UNAVAILABLE", "EX_TEMPFAIL"),
        ("EX_CONFIG",),
        "for an unavailable service or one that invites to retry",
        "for a wrong configuration",
    ),
    (
        ("EX_IOERR",),
        ("EX_OSFILE", "EX_OSERR"),
        "for a failed input or output",
        "for a system error or a missing file of the system",
    ),
    (
        ("EX_NOHOST", "EX_NOUSER"),
        ("EX_PROTOCOL",),
        "for an unknown host or an unknown addressee",
        "for an error of the remote side in the protocol",
    ),
)


@dataclass(frozen=True)
class _End:
    """One service that ended."""

    second: int
    host: str
    service: str
    status: int
    restarted: bool


def _line(end: _End, style: int) -> str:
    day, rest = divmod(end.second, 86400)
    time = f"2025-03-{day + 3:02}T{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}Z"
    done = "restart" if end.restarted else "leave"
    if style == 0:
        return f"{time} {end.host} supervise[1]: {end.service} ended, status {end.status}: {done}"
    if style == 1:
        return json.dumps(
            {"t": time, "host": end.host, "unit": end.service, "exit": {"status": end.status}, "then": done}
        )
    if style == 2:
        return f'time={time} level=warn host={end.host} msg="{end.service} ended" status={end.status} action={done}'
    return f"{time};{end.host};{end.service};{end.status};{done}"


_READERS = (
    r"""m = re.fullmatch(r"\S+ (\S+) supervise\[1\]: (\S+) ended, status (\d+): (\w+)", line)
        host, service, status, done = m.groups()""",
    """entry = json.loads(line)
        host, service, status, done = entry["host"], entry["unit"], entry["exit"]["status"], entry["then"]""",
    """m = re.search(r'host=(\\S+) msg="(\\S+) ended" status=(\\d+) action=(\\w+)', line)
        host, service, status, done = m.groups()""",
    """_, host, service, status, done = line.split(";")""",
)
_SOLUTION = r"""
import collections, gzip, json, re
names = {}
for name, number in re.findall(r"#define (EX_[A-Z]+)\t(\d+)", gzip.open("MANUAL", "rt").read()):
    names[int(number)] = name
ends = collections.defaultdict(collections.Counter)
broken, alarms = [], set()
for path in ("/var/log/supervise/ends.log.1", "/var/log/supervise/ends.log"):
    for number, line in enumerate(open(path).read().splitlines(), 1):
        READER
        name = names.get(int(status), "other")
        ends[KEY][name] += 1
        due = "restart" if name in RESTARTED else "leave"
        if name in ALARMS:
            alarms.add(service)
        if done != due:
            broken.append([path.rsplit("/", 1)[1], number, service, name, due])
report = {"ends": ends, "broken": broken, "alarms": sorted(alarms)}
json.dump(report, open("/work/audit.json", "w"), indent=1)
"""


def service_exits(seed: int, context: Context) -> Draft:
    """Which ends of services had which meaning, and where the supervisor did not keep to its rule."""
    rng = chance("security", "service_exits", seed)
    manual = gzip.decompress(context.read("exit_manual/sysexits.h.3head.gz")).decode()
    codes = {name: int(number) for name, number in re.findall(r"#define (EX_[A-Z]+)\t(\d+)", manual)}
    restarted, alarming, when_restarted, when_alarming = _RULES[seed % len(_RULES)]
    by_host = seed % 2 == 1
    ends = _ends(rng, codes, restarted, alarming)
    cut = len(ends) * 2 // 5
    expected = _audit((ends[:cut], ends[cut:]), {n: name for name, n in codes.items()}, restarted, alarming, by_host)
    style = seed % len(_READERS)
    solution = changed(
        _SOLUTION,
        ("MANUAL", MANUAL),
        ("READER", _READERS[style]),
        ("ends[KEY]", f"ends[{'host' if by_host else 'service'}]"),
        ("RESTARTED", repr(restarted)),
        ("ALARMS", repr(alarming)),
    )
    logs = ("\n".join(_line(end, style) for end in part) + "\n" for part in (ends[:cut], ends[cut:]))
    return Draft(
        family="service_exits",
        seed=seed,
        difficulty="medium",
        instruction=_instruction(by_host, when_restarted, when_alarming),
        files=tuple(
            TaskFile(path=f"/var/log/supervise/{name}", text=text) for name, text in zip(_LOGS, logs, strict=True)
        ),
        solution=(python(solution),),
        right=(
            Variant(
                name="sorted_keys",
                commands=(python(changed(solution, (", indent=1", ", sort_keys=True, separators=(',', ':')"))),),
            ),
        ),
        weak=(
            Variant(
                name="first_name_of_a_number",
                commands=(
                    python(
                        changed(
                            solution,
                            ("EX_[A-Z]+", "EX_\\w+"),
                            ("names[int(number)] = name", "names.setdefault(int(number), name)"),
                        )
                    ),
                ),
            ),
            Variant(
                name="only_the_newest_log",
                commands=(python(changed(solution, ('"/var/log/supervise/ends.log.1", ', ""))),),
            ),
            Variant(
                name="lines_counted_from_nought",
                commands=(python(changed(solution, (".splitlines(), 1)", ".splitlines())"))),),
            ),
        ),
        verifier=filled(_VERIFIER, **expected),
        contexts=("exit_manual",),
    )


_LOGS = ("ends.log.1", "ends.log")
_VERIFIER = """
import json

import pytest

ENDS = __ENDS__
BROKEN = __BROKEN__
ALARMS = __ALARMS__


@pytest.fixture
def audit(box):
    return json.loads(box.text("/work/audit.json"))


def test_meanings_of_all_ends(audit):
    assert audit["ends"] == ENDS


def test_decisions_against_the_rule_in_order(audit):
    assert [list(entry) for entry in audit["broken"]] == BROKEN


def test_services_to_alarm_about(audit):
    assert audit["alarms"] == ALARMS
"""


def _instruction(by_host: bool, when_restarted: str, when_alarming: str) -> str:
    return (
        f"Our supervisor restarts a service only if it ended with a status {when_restarted}; after any other end it "
        "has to leave it alone. I doubt that it does. What the statuses mean is in the table of the manual page "
        f"{MANUAL} (EX__BASE and EX__MAX are bounds there, not statuses). The logs are /var/log/supervise/ends.log "
        "and, older, ends.log.1 beside it. Please audit both and write /work/audit.json:\n"
        f"- `ends`: for each {'host' if by_host else 'service'} an object from the constant, e.g. `EX_OK`, to how "
        f"often {'services on it' if by_host else 'it'} ended with that status; only constants that occur. A "
        "status that the table does not have counts under `other`.\n"
        "- `broken`: every decision against the rule, a list of [name of the log file, number of the line from 1, "
        "service, constant or `other`, what would have been right: `restart` or `leave`], oldest first.\n"
        f"- `alarms`: names of the services that at least once ended with a status {when_alarming}, in alphabetical "
        "order.\nThe logs stay as they are."
    )


def _ends(
    rng: random.Random, codes: dict[str, int], restarted: tuple[str, ...], alarming: tuple[str, ...]
) -> list[_End]:
    """Ends of services over two days; one in seven is treated against the rule."""
    services = rng.sample(_SERVICES, 6)
    numbers = [*codes.values(), 1, 2, 127, 139, *(codes[name] for name in restarted * 3)]
    kept = {codes[name] for name in alarming}
    ends = []
    for number, second in enumerate(sorted(rng.sample(range(600, 172_000), rng.randint(70, 90)))):
        service = rng.choice(services)
        # The status with two names in the table occurs in every task.
        status = codes["EX_USAGE"] if number % 30 == 7 else rng.choice(numbers)
        while status in kept and service in services[:3]:
            status = rng.choice(numbers)
        due = status in {codes[name] for name in restarted}
        ends.append(_End(second, rng.choice(_HOSTS), service, status, due != (rng.randrange(7) == 0)))
    return ends


def _audit(
    parts: tuple[list[_End], list[_End]],
    names: dict[int, str],
    restarted: tuple[str, ...],
    alarming: tuple[str, ...],
    by_host: bool,
) -> dict[str, object]:
    ends: dict[str, dict[str, int]] = {}
    broken = []
    alarms = set()
    for log, part in zip(_LOGS, parts, strict=True):
        for number, end in enumerate(part, 1):
            name = names.get(end.status, "other")
            counts = ends.setdefault(end.host if by_host else end.service, {})
            counts[name] = counts.get(name, 0) + 1
            alarms |= {end.service} if name in alarming else set()
            if end.restarted != (name in restarted):
                broken.append([log, number, end.service, name, "restart" if name in restarted else "leave"])
    return {"ends": ends, "broken": broken, "alarms": sorted(alarms)}
