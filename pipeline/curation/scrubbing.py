"""Rows without secrets, personal data and traces of our machine: what is found, and how it is replaced.

Two steps, so that what was found can be kept and counted: `find_in_row` reads a row once and gives its findings;
`scrub_row` replaces them, now or at any later time. Both are pure: equal rows and facts give equal results.

A placeholder is one word, `SCRUBBED_<KIND>_<NUMBER>`, e.g. `SCRUBBED_GITHUB_PAT_1`, since a word needs no quoting in a
shell, in JSON, in a URL or in a regular expression. One value has one placeholder in the whole row, in whatever coding
it stands; the folder before a user's name and the slash before a path of our machine stay, so that paths stay paths.
Scrubbing a scrubbed row changes nothing.

What a task **planted** stays, since its replay and its verifier need it, and is a finding without placeholder:
- a secret that stands in the instruction, the reference solution or the verifier, or in texts that the caller adds
  (files that a generator made);
- personal data that stands there too, but only in tasks of our own material (source `context`), where persons are
  made up. What the task of a real repository quotes of its maintainers is personal data;
- a folder below `/work`, `/workspace` or `/root` that the task itself speaks of, though our machine has it as well.
A secret that only files of the repository or an observation show is never planted; no other trace of our machine is.

Where replacing would break a task, since its solution or its verifier holds a value that was not planted, `unsafe`
says so. Coded values are found through the colours of a terminal, line continuations, escapes of JSON and of shells,
percent-codes and Base64 of a whole value. Not found: values coded twice, encrypted, compressed or cut by line numbers
or by other texts, Base64 of a text that merely contains a value, and what the rules of secrets.py and personal.py name.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pipeline.columns import JSON_COLUMNS
from pipeline.curation.own_host import HostFacts, host_traces
from pipeline.curation.personal import personal
from pipeline.curation.scrub_views import Hit, View, views
from pipeline.curation.secrets import Detector, secrets
from pipeline.errors import PipelineError
from pipeline.schemas import Row, canonical_json
from pipeline.types import CONTEXT, Record

RULES = "scrub-1"
"""Changes whenever other findings may come out."""
MAX_VALUES = 2_000
"""Different values in one row from which it is no trace of work any more, but a list of addresses."""
MAX_SECRETS = 200
ROUNDS = 3
"""How often what is left is read again: placeholders have another length, and other words may come together."""
ANYWHERE = 12
"""Length from which a secret is replaced inside of longer words too."""

IDENTITY = frozenset(
    {
        "trajectory_id",
        "instance_id",
        "repository_id",
        "source",
        "full_name",
        "commit",
        "license",
        "license_path",
        "license_sha256",
        "language",
        "domain",
        "family",
        "difficulty",
        "verifier_sha256",
        "image_digest",
        "agent",
        "sample",
        "stop_reason",
        "outcome",
        "backend",
        "generator",
        "interface",
        "split",
        "tokenizer_id",
        "failure_class",
    }
)
"""Columns that say which row it is, in words of ours or in the public name of the repository."""

_PLACEHOLDER = re.compile(r"SCRUBBED_[A-Z0-9_]+?_\d+")
_WORD = re.compile(r"\w")
_FILE_END = re.compile(r"[.-]\w")
_SECRET = ("secret.", "host.secret")
_ESCAPE_END = re.compile(
    r"(?:\\[ntrbfva0]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9A-Fa-f]{2}|(?:\x1b|\\u001b|\\x1b|\\033)\[[0-9;?]*[A-Za-z])\Z"
)
_SHARED_FOLDERS = ("/work/", "/workspace/", "/root/")


class NotScrubbable(PipelineError):
    """A row in which the findings are too many, or which keeps the rules busy for too long. The text says which."""


class Finding(Record):
    """One text that was found in a row."""

    kind: str
    """Group and kind, e.g. `secret.github_pat`, `personal.email`, `host.path`."""
    text: str
    """As it stands in the row; a value in two codings is two findings with one placeholder."""
    placeholder: str
    """What stands there afterwards; empty for what the task planted, which stays."""
    count: int
    """How often it is replaced in the texts of the row, or would be; 0 where it always overlaps with a longer one."""


class Planted(Record):
    """Texts of a task; a value that stands in one of them is part of the task."""

    secrets: tuple[str, ...] = ()
    personal: tuple[str, ...] = ()

    def covers(self, kind: str, *values: str) -> bool:
        """Whether one of the values belongs to the task."""
        if kind.startswith("host.") and not (kind == "host.path" and values[0].startswith(_SHARED_FOLDERS)):
            return False
        texts = self.personal if kind.startswith("personal.") else self.secrets
        return any(value in text for text in texts for value in values)


def find_in_row(
    row: Mapping[str, object], host: HostFacts, detector: Detector, generated: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Findings in the texts of a published row. `generated`: files that the generator of the task made.

    Raises NotScrubbable.
    """
    own = (*_task_texts(row, ("instruction", *_JUDGING)), *generated)
    planted = Planted(secrets=own, personal=own if row.get("source") == CONTEXT else ())
    return find(_texts(row), planted=planted, host=host, detector=detector)


def find(texts: Iterable[str], *, planted: Planted, host: HostFacts, detector: Detector) -> tuple[Finding, ...]:
    """Findings in texts that belong together, in the order in which they come. Raises NotScrubbable."""
    every = list(texts)
    different = list(dict.fromkeys(filter(None, every)))
    surfaces: _Surfaces = {}
    left: Sequence[str] = different
    for _ in range(ROUNDS):
        before = len(surfaces)
        _look(surfaces, left, host, detector)
        _add_codings(surfaces, different)
        if len(surfaces) == before:
            break
        replace = Replacer(_numbered(surfaces, planted))
        left = [changed for text in different if (changed := replace(text)) != text]
    # What only ever stands inside of something longer is no finding, and takes no number.
    counts = _counted(every, _numbered(surfaces, planted))
    found = _numbered({surface: entry for surface, entry in surfaces.items() if surface in counts}, planted)
    return tuple(finding.model_copy(update={"count": counts[finding.text]}) for finding in found)


_Surfaces = dict[str, tuple[str, str, str]]
"""Text as it stands -> kind, what stays of it, and the value as it is without its coding."""


def _look(surfaces: _Surfaces, texts: Iterable[str], host: HostFacts, detector: Detector) -> None:
    try:
        for view in views(texts):
            for hit in _hits(view, host, detector):
                if not view.splits_code(hit.start):
                    _note(surfaces, view, hit)
    except TimeoutError as error:
        raise NotScrubbable(f"the detector gave up on a text: {error}") from error


def _counted(texts: Iterable[str], findings: Sequence[Finding]) -> Counter[str]:
    """How often each finding is met, by its text."""
    counts = Counter[str]()
    replace = Replacer(findings, counts)
    planted = [finding for finding in findings if not finding.placeholder]
    for text in texts:
        replace(text)
        for finding in planted:
            if n := sum(1 for _ in _spans(text, finding)):
                counts[finding.text] += n
    return counts


def _hits(view: View, host: HostFacts, detector: Detector) -> Iterator[Hit]:
    """Traces of the host come first: what is both is counted as one of them."""
    yield from host_traces(view, host)
    yield from secrets(view, detector)
    yield from personal(view)


def _note(surfaces: _Surfaces, view: View, hit: Hit) -> None:
    surface = view.raw(hit.start, hit.end)
    if surface in surfaces or _PLACEHOLDER.search(surface) or not surface:
        return
    if len(surfaces) >= MAX_VALUES:
        raise NotScrubbable(f"more than {MAX_VALUES} values would have to be replaced")
    value = view.text[hit.hidden : hit.end]
    surfaces[surface] = (hit.kind, view.raw(hit.start, hit.hidden), value)


def _add_codings(surfaces: _Surfaces, texts: Sequence[str]) -> None:
    """Secrets in codings in which no rule sees them by themselves, or not that they are the same."""
    secret = [(kind, value) for kind, _, value in surfaces.values() if kind.startswith(_SECRET)]
    if len(secret) > MAX_SECRETS:
        raise NotScrubbable(f"more than {MAX_SECRETS} secrets would have to be replaced")
    for kind, value in secret:
        for coding in _codings(value):
            known = coding in surfaces
            if (known and coding != value) or (not known and any(coding in text for text in texts)):
                surfaces[coding] = (kind, "", value)


def _codings(value: str) -> list[str]:
    encoded = value.encode("utf-8", "replace")
    coded = [value, json.dumps(value)[1:-1], urllib.parse.quote(encoded, safe="")]
    if len(value) >= 8:
        whole = [base64.b64encode(encoded + end).decode() for end in (b"", b"\n")]
        coded += [*whole, *(code.rstrip("=") for code in whole)]
    return coded


def _folded(kind: str, value: str) -> str:
    """Equal for what is one value: letters' case says nothing in addresses and names."""
    return value.lower() if kind in ("personal.email", "host.name", "host.address", "host.user") else value


def _numbered(surfaces: _Surfaces, planted: Planted) -> list[Finding]:
    """Findings without counts; values are numbered by kind in the order of their coming."""
    names: dict[tuple[str, str], str] = {}
    numbers = Counter[str]()
    findings = []
    for surface, (kind, before, value) in surfaces.items():
        name = ""
        if not planted.covers(kind, surface, value):
            key = (kind, _folded(kind, value))
            if key not in names:
                label = re.sub(r"[^A-Z0-9]+", "_", kind.partition(".")[2].upper())
                numbers[label] += 1
                names[key] = f"SCRUBBED_{label}_{numbers[label]}"
            name = before + names[key]
        findings.append(Finding(kind=kind, text=surface, placeholder=name, count=0))
    return findings


class Replacer:
    """Findings -> the way of a text to one without them. Longer ones win; placeholders are left alone."""

    def __init__(self, findings: Iterable[Finding], counts: Counter[str] | None = None) -> None:
        """`counts`, if given, gets how often each finding was replaced, by its text."""
        self._findings = [finding for finding in findings if finding.placeholder]
        self._counts = counts

    def __call__(self, text: str) -> str:
        spans = [span for finding in self._findings for span in _spans(text, finding)]
        if not spans:
            return text
        taken = [found.span() for found in _PLACEHOLDER.finditer(text)] if "SCRUBBED_" in text else []
        parts: list[str] = []
        done = 0
        for start, end, (finding, *shorter) in _apart(spans, taken):
            if self._counts is not None:
                self._counts.update([finding.text])
                self._counts.update(dict.fromkeys((one.text for one in shorter), 0))
            parts += (text[done:start], finding.placeholder)
            done = end
        return "".join([*parts, text[done:]])


_Span = tuple[int, int, Finding]


def _spans(text: str, finding: Finding) -> Iterator[_Span]:
    at = text.find(finding.text)
    while at >= 0:
        end = at + len(finding.text)
        if _stands_alone(text, at, end, finding):
            yield at, end, finding
        at = text.find(finding.text, at + 1)


def _stands_alone(text: str, start: int, end: int, finding: Finding) -> bool:
    if finding.kind.startswith(_SECRET) and len(finding.text) >= ANYWHERE:
        return True
    if _WORD.match(text, end) and _WORD.match(text, end - 1):
        return False
    if finding.kind == "host.path" and _FILE_END.match(text, end):
        return False
    before = _WORD.match(text, start) and start and _WORD.match(text, start - 1)
    return not before or bool(_ESCAPE_END.search(text[max(0, start - 14) : start]))


def _apart(spans: list[_Span], taken: list[tuple[int, int]]) -> Iterator[tuple[int, int, list[Finding]]]:
    """Stretches that do not overlap: where spans do, one as wide as all of them. First the longest finding of each,
    then those without which it would be less wide."""
    spans.sort(key=lambda span: (span[0], -span[1]))
    placeholders = iter(taken)
    blocked = next(placeholders, None)
    begin = until = 0
    found: list[Finding] = []
    for start, end, finding in spans:
        while blocked and blocked[1] <= start:
            blocked = next(placeholders, None)
        if blocked and blocked[0] < end:
            continue
        if found and start >= until:
            yield begin, until, found
            found = []
        if not found:
            begin, until, found = start, end, [finding]
        elif end > until:
            until = end
            found = sorted([*found, finding], key=lambda one: -len(one.text))
    if found:
        yield begin, until, found


def scrub_row(row: Row, findings: Iterable[Finding]) -> Row:
    """The row with every finding replaced in its texts; columns of JSON stay JSON."""
    kept = [finding for finding in findings if finding.placeholder]
    if not kept:
        return row
    replace = Replacer(kept)
    return {name: value if name in IDENTITY else _scrubbed(name, value, replace) for name, value in row.items()}


def _scrubbed(name: str, value: object, replace: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return _scrubbed_json(value, replace) if name in JSON_COLUMNS else replace(value)
    if isinstance(value, Mapping):
        return {key: _scrubbed(str(key), entry, replace) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed(name, entry, replace) for entry in value]
    return value


def _scrubbed_json(text: str, replace: Callable[[str], str]) -> str:
    """Replaced string by string; a text that is no JSON, or nested too deep to be read, as it stands."""
    try:
        value = json.loads(text)
        changed = _each_string(value, replace)
        return text if changed == value else canonical_json(changed)
    except (ValueError, RecursionError):
        return replace(text)


def _each_string(value: object, replace: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, dict):
        return {replace(key): _each_string(entry, replace) for key, entry in value.items()}
    return [_each_string(entry, replace) for entry in value] if isinstance(value, list) else value


_JUDGING = ("solution", "verifier_files", "verifier_command", "verifier_passing_tests")
"""Columns that judge a state or have to lead to it: with another text in them the task is another one."""


def unsafe(row: Mapping[str, object], findings: Iterable[Finding]) -> str | None:
    """Why a row cannot be published scrubbed, or None: its solution or its verifier would have to be changed."""
    kept = {finding.text: finding for finding in findings if finding.placeholder}
    for name in _JUDGING:
        counts = _counted(_task_texts(row, (name,)), list(kept.values()))
        for text in counts:
            return f"{name} holds {kept[text].placeholder} ({kept[text].kind}), which the task did not plant"
    return None


def _task_texts(row: Mapping[str, object], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(text for name in names for text in _strings(name, row.get(name)))


def _texts(row: Mapping[str, object]) -> Iterator[str]:
    """Every text of a row that is scrubbed, strings of JSON columns one by one."""
    for name, value in row.items():
        if name not in IDENTITY:
            yield from _strings(name, value)


def _strings(name: str, value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from _json_strings(value) if name in JSON_COLUMNS else (value,)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _strings(str(key), entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _strings(name, entry)


def _json_strings(text: str) -> Iterator[str]:
    try:
        found: list[str] = []
        _each_string(json.loads(text), lambda string: found.append(string) or string)  # type: ignore[func-returns-value]
    except (ValueError, RecursionError):
        found = [text]
    yield from found
