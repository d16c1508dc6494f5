"""A log of failed certificate checks, explained by the manual page of the library that is said to have made it.

Which line the library cannot have written, and whose certificate a line is about, only the page tells.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
from dataclasses import dataclass

from pipeline.generators.domains.security.commands import changed, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

PAGE = "X509_STORE_CTX_get_error.3ssl.gz"
MANUAL = f"/srv/manual/openssl/{PAGE}"
_UNLISTED = (
    ("CERT_SUPERSEDED", "certificate has been superseded"),
    ("ISSUER_SUSPENDED", "issuer certificate is suspended"),
    ("SERIAL_REUSED", "serial number was used before"),
    ("KEY_ESCROWED", "subject key is escrowed"),
)
_PEERS = ("mx.alder.example", "relay.birch.example", "in.cedar.example", "smtp.elm.example", "mail.hazel.example")
_ROOTS = ("Harbour Root", "Summit Root", "Meadow Root")
_BETWEEN = ("Policy CA", "Regional CA", "Issuing CA", "Machine CA")


@dataclass(frozen=True)
class _Error:
    """An entry of the page."""

    constant: str
    message: str
    origin: str


@dataclass(frozen=True)
class _Event:
    """A line of the log; `constant` and `message` also of what the page does not have."""

    number: str
    session: str
    depth: int
    error: _Error


def _errors(page: str) -> list[_Error]:
    """Entries of the page that stand for errors, with who may set them by its descriptions."""
    body = page.split('.SH "ERROR CODES"')[1].split('.SH "NOTES"')[0]
    found = []
    for entry in re.split(r"(?m)^\.IP .*\n", body)[1:]:
        head, described = entry.split("\n", 1)
        constant, message = head.removeprefix('.IX Item "').removesuffix('"').split(": ", 1)
        text = " ".join(described.split())
        origin = "impossible" if "Unused." in text else "callback" if "callback" in text else "library"
        found.append(_Error(constant, message, origin))
    return [error for error in found if error.constant.startswith("X509_V_ERR_")]


def _events(rng: random.Random, page: str, chains: dict[str, list[str]]) -> list[_Event]:
    """Lines of all kinds in an order by chance."""
    by_origin: dict[str, list[_Error]] = {"library": [], "callback": [], "impossible": []}
    for error in _errors(page):
        by_origin[error.origin].append(error)
    # What its description ties to one program, or says should not happen, could be argued about.
    doubtful = ("UNSPECIFIED", "DANE_NO_MATCH", "INVALID_CALL", "OUT_OF_MEM")
    common = [error for error in by_origin["library"] if not error.constant.endswith(doubtful)]
    picked = rng.sample(common, 16) + by_origin["impossible"] + rng.sample(by_origin["callback"], 3)
    picked += [_Error(f"X509_V_ERR_{name}", message, "unlisted") for name, message in rng.sample(_UNLISTED, 2)]
    picked += rng.choices(picked, k=9)
    rng.shuffle(picked)
    events = []
    for number, error in enumerate(picked, 1):
        session = rng.choice(sorted(chains))
        events.append(_Event(f"v{number:03}", session, rng.randrange(len(chains[session])), error))
    return events


def _shown(error: _Error, constants: bool) -> str:
    return error.constant.removeprefix("X509_V_ERR_").lower() if constants else error.message


def _log(events: list[_Event], constants: bool, style: int) -> str:
    """The log in one of four forms."""
    rows = [(e.number, e.session, str(e.depth), _shown(e.error, constants)) for e in events]
    if style == 0:
        return "".join(f'relay[77]: verify {n} session={s} depth={d} error="{e}"\n' for n, s, d, e in rows)
    if style == 1:
        return "".join(
            json.dumps({"event": n, "peer": {"session": s, "depth": int(d)}, "error": e}) + "\n" for n, s, d, e in rows
        )
    if style == 2:
        return "\n".join(f"Event: {n}\nSession: {s}\nDepth: {d}\nError: {e}\n" for n, s, d, e in rows)
    out = io.StringIO()
    csv.writer(out, delimiter=";", lineterminator="\n").writerows([("event", "depth", "error", "session")])
    csv.writer(out, delimiter=";", lineterminator="\n").writerows((n, d, e, s) for n, s, d, e in rows)
    return out.getvalue()


_READERS = (
    r"""events = re.findall(r'verify (\S+) session=(\S+) depth=(\d+) error="(.*)"', log)""",
    """events = [(e["event"], e["peer"]["session"], e["peer"]["depth"], e["error"])
    for e in map(json.loads, log.splitlines())]""",
    r"""events = re.findall(r"Event: (.*)\nSession: (.*)\nDepth: (.*)\nError: (.*)", log)""",
    """events = [(e["event"], e["session"], e["depth"], e["error"])
    for e in csv.DictReader(log.splitlines(), delimiter=";")]""",
)
_FORMS = (
    "`verify.log` has a line for each event",
    "`verify.log` has a JSON object a line for each event",
    "`verify.log` has a block of four lines for each event",
    "`verify.log` is a table with semicolons, a row for each event",
)
_WRITERS = (
    """out = csv.writer(open("/work/findings.csv", "w", newline=""))
out.writerows([COLUMNS, *rows])""",
    """json.dump([dict(zip(COLUMNS, row)) for row in rows], open("/work/findings.json", "w"))""",
    """open("/work/findings.tsv", "w").writelines("\\t".join(row) + "\\n" for row in [COLUMNS, *rows])""",
    """open("/work/findings.jsonl", "w").writelines(json.dumps(dict(zip(COLUMNS, row))) + "\\n" for row in rows)""",
)
_REPORTS = (
    ("/work/findings.csv", "a CSV file with a header"),
    ("/work/findings.json", "a JSON list of objects"),
    ("/work/findings.tsv", "tab-separated with a header and no quoting"),
    ("/work/findings.jsonl", "one JSON object a line"),
)
_SOLUTION = r"""
import csv, gzip, json, re
page = gzip.open("MANUAL", "rt").read()
body = page.split('.SH "ERROR CODES"')[1].split('.SH "NOTES"')[0]
known = {}
for constant, message, text in re.findall(r'\.IX Item "(\w+): (.*)"\n((?:(?!\.IP).*\n)*)', body):
    text = " ".join(text.split())
    origin = "impossible" if "Unused." in text else "callback" if "callback" in text else "library"
    known[SHOWN] = (WANTED, origin)
log = open("/work/relay/verify.log").read()
chains = json.load(open("/work/relay/chains.json"))
READER
rows = []
for number, session, depth, error in events:
    wanted, origin = known.get(error, ("-", "unlisted"))
    subject = chains[session][-1 - int(depth)]
    rows.append((number, wanted, LAST))
WRITER
"""
_ORIGIN = (
    "`origin`: `impossible` when its description calls the code unused (so the library never returned it and somebody "
    "made the line up), `callback` when the description says that it comes from a verify callback or has to be set by "
    "an application's, `library` for every other code on the page, `unlisted` for what the page does not have"
)
_SUBJECT = (
    "`subject`: the name of the certificate that the error occurred in, from chains.json, which lists the certificates "
    "of each session from the root down to the one of the server; how `depth` counts is on the page, too"
)


def verify_forensics(seed: int, context: Context) -> Draft:
    """What each failed check means, and who can have caused it."""
    rng = chance("security", "verify_forensics", seed)
    page = gzip.decompress(context.read(f"openssl_manual/{PAGE}")).decode()
    style, constants, by_subject = seed % 4, seed % 4 in (2, 3), seed % 2 == 1
    chains = {
        f"s{n:02}": [rng.choice(_ROOTS), *rng.sample(_BETWEEN, rng.randint(1, 3)), rng.choice(_PEERS)]
        for n in rng.sample(range(1, 60), 8)
    }
    events = _events(rng, page, chains)
    columns = ["event", "message" if constants else "constant", "subject" if by_subject else "origin"]
    rows = []
    for event in events:
        error = event.error
        name = "-" if error.origin == "unlisted" else error.message if constants else error.constant
        rows.append([event.number, name, chains[event.session][-1 - event.depth] if by_subject else error.origin])
    solution = _solution(style, constants, columns)
    return Draft(
        family="verify_forensics",
        seed=seed,
        difficulty="hard" if by_subject else "medium",
        instruction=_instruction(style, constants, columns),
        files=(
            TaskFile(path="/work/relay/verify.log", text=_log(events, constants, style)),
            TaskFile(path="/work/relay/chains.json", text=json.dumps(chains, indent=1) + "\n"),
        ),
        solution=(python(solution),),
        right=(Variant(name="from_the_headings", commands=(python(_by_headings(solution)),)),),
        weak=_weak(solution, constants, by_subject),
        verifier=filled(
            _VERIFIER,
            columns=columns,
            rows=rows,
            path=_REPORTS[style][0],
            logged=_log(events, constants, style),
            chains=chains,
        )
        + f"\n\n{_TABLES[style]}",
        contexts=("openssl_manual",),
    )


def _solution(style: int, constants: bool, columns: list[str]) -> str:
    bare = 'constant.removeprefix("X509_V_ERR_").lower()'
    return changed(
        _SOLUTION,
        ("MANUAL", MANUAL),
        ("SHOWN", bare if constants else "message"),
        ("WANTED", "message" if constants else "constant"),
        ("READER", _READERS[style]),
        ("LAST", columns[-1]),
        ("WRITER", changed(_WRITERS[style], ("COLUMNS", repr(tuple(columns))))),
    )


def _by_headings(solution: str) -> str:
    """The same from the entries as they are set, whose marks for fonts and sizes have to go."""
    found = next(line for line in solution.splitlines() if line.startswith("for constant, message, text"))
    return changed(
        solution,
        (
            found,
            r"""for block in body.split('.IP "')[1:]:
    head, text = block.split("\n", 1)
    head = re.sub(r"\\f[BIR]|\\s-?\d|\\&", "", head).rsplit('"', 1)[0]
    constant, message = head.split(": ", 1)""",
        ),
    )


def _weak(solution: str, constants: bool, by_subject: bool) -> tuple[Variant, ...]:
    guess = 'error.replace("_", " ")' if constants else '"X509_V_ERR_" + error.upper().replace(" ", "_")'
    changes = {"names_made_up": (("(number, wanted,", f"(number, {guess},"),)}
    if by_subject:
        changes["depth_counted_from_the_root"] = (("-1 - int(depth)", "int(depth)"),)
        changes["depth_of_the_server_is_one"] = (("-1 - int(depth)", "-int(depth)"),)
    else:
        changes["unused_codes_believed"] = (('"impossible" if "Unused." in text else ', ""),)
        changes["callbacks_overlooked"] = (('"callback" if "callback" in text else ', ""),)
    return tuple(Variant(name=name, commands=(python(changed(solution, *one)),)) for name, one in changes.items())


def _instruction(style: int, constants: bool, columns: list[str]) -> str:
    path, form = _REPORTS[style]
    given, wanted = (
        ("the constant in lower case without `X509_V_ERR_`", "`message`: the text that the page gives after it")
        if constants
        else ("the message of the library", "`constant`: the full name, `X509_V_ERR_...`, that has this message")
    )
    last = _SUBJECT if columns[-1] == "subject" else _ORIGIN
    return (
        f"The relay refuses partners, and its operator disputes why. In /work/relay, {_FORMS[style]} that certificate "
        f"verification reported: number, session, depth and the error, as {given}. The operator goes by the manual "
        f"page of this OpenSSL, {MANUAL}, and so must we: nothing from memory or from another version.\n"
        f"Explain every event in {path}, {form}, in the order of the log, with `{'`, `'.join(columns)}`:\n"
        f"- `event`: its number as in the log.\n"
        f"- {wanted}, as a reader of the page sees it, without marks for fonts and sizes; `-` when the page does not "
        f"have the error.\n- {last}.\nLeave log and chains.json as they are."
    )


_VERIFIER = """
import csv
import io
import json

COLUMNS = __COLUMNS__
ROWS = __ROWS__


def test_log_and_chains_are_still_as_they_were(box):
    assert box.text("/work/relay/verify.log") == __LOGGED__
    assert json.loads(box.text("/work/relay/chains.json")) == __CHAINS__


def test_every_event_in_its_order(box):
    assert [row[0] for row in table(box.text(__PATH__))] == [row[0] for row in ROWS]


def test_names_from_the_page(box):
    assert [row[:2] for row in table(box.text(__PATH__))] == [row[:2] for row in ROWS]


def test_who_or_what_is_behind_each_event(box):
    assert [row[2] for row in table(box.text(__PATH__))] == [row[2] for row in ROWS]


"""
_OBJECTS = """    assert all(sorted(entry) == sorted(COLUMNS) for entry in entries)
    return [[entry[name] for name in COLUMNS] for entry in entries]
"""
_TABLES = (
    """def table(text):
    head, *rows = [row for row in csv.reader(io.StringIO(text)) if row]
    assert head == COLUMNS
    return rows
""",
    f"""def table(text):
    entries = json.loads(text)
{_OBJECTS}""",
    """def table(text):
    head, *rows = [line.split("\\t") for line in text.splitlines() if line]
    assert head == COLUMNS
    return rows
""",
    f"""def table(text):
    entries = [json.loads(line) for line in text.splitlines() if line.strip()]
{_OBJECTS}""",
)
