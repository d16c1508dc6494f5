"""Credentials in a text: what a maintained detector knows by form, and what only its surroundings give away.

The detector is Kingfisher (rules of medium confidence and above; nothing is sent or verified). It knows hundreds of
services by the form of their keys, and nothing of passwords: those are found here where a name says so, and only when
the value looks made at random. Entropy alone is never a reason: hashes, commits and identifiers are what many tasks
are about. What was measured, with the alternatives, is in training/experiments/scrubbing/result.json.

Not found: passwords of fewer than eight characters, of words alone or of few different characters; values in a table
or a sentence without a name beside them; in `-pVALUE`, which is a port as often; in the key of a mapping.

Not here: whether a task planted the value (scrubbing.py).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kingfisher_sdk import Rules, Scanner

from pipeline.curation.scrub_views import OVERLAP, Hit, View

RULES_CACHE = "cache/secret_rules"
"""Where a data folder keeps the compiled rules of the detector."""
TIMEOUT_S = 60.0
"""Longest time the detector may take for one piece of a text."""

# What the detector lists beside a key without being secret by itself.
_NO_CREDENTIAL = re.compile(
    r"(?:client-id|username|domain|host|url|account-id|account-name|cloud-name|tenant-id|application-id|app-id|address"
    r"|user-api-id|token-name|repository|pub-key|public-key|pub-api-key|public-api-token|account-host)$"
)
_SHOWN_TOKEN = ".eyJzdWIiOiIxMjM0NTY3ODkwI"
"""Beginning of the body of the JSON web token that documents show: its subject is 1234567890."""
_GENERIC = frozenset({"generic-credential-uri", "curl-auth-user", "curl-auth-header", "kubernetes-secret-yaml"})
"""Rules of the detector that take any value in a certain place."""
_AWS = re.compile(r"A(?:KI|SI|BI|CC)A[A-Z0-9]{16}(?![A-Za-z0-9])")
_BOT = re.compile(r":AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])")
_KEY_WORDS = r"(?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
# Whole, or cut off somewhere: outputs are.
_KEY_BLOCK = re.compile(
    rf"-----BEGIN {_KEY_WORDS}(?:[^-\0]{{0,12000}}+(?:-(?!----)[^-\0]{{0,12000}}+){{0,9}}-----END {_KEY_WORDS}"
    r"|(?:\s{1,9}[>|#+-]?[ ]{0,20}[A-Za-z0-9+/=:,-]{16,})+)"
)
_KEY_END = re.compile(rf"-----END {_KEY_WORDS}")
_KEY_LINE = re.compile(r"\s*[A-Za-z0-9+/=]{16,80}\s*")
_PLAIN = r"""[^\s"'`,;<>(){}\[\]\\|&]{8,200}+"""
_NAMES = ("pass", "pwd", "secret", "token", "credential", "key")
_NAMED = re.compile(
    r"(?i)(?P<name>(?:pass(?:w(?:or)?d|phrase|wd)?|pwd|secret|token|credential|key)[a-z0-9_-]{0,24})"
    r"""["']?\]?[ \t]{0,3}(?::=|=>|=|:|(?<=--password)[ ])[ \t]{0,3}"""
    rf"""(?:(?P<quote>["'])(?P<quoted>[^"'\n]{{8,200}})(?P=quote)|(?P<plain>{_PLAIN})(?![(\[{{]))"""
)
_KEY_OWNER = re.compile(
    r"(?i)(?:api|access|auth|account|signing|encryption|master|secret|shared|service|license)[_-]?\Z"
)
_SPEECH = ("login", "sshpass")
_SPOKEN = re.compile(
    r"(?i)(?:login\s{1,9}\S{1,64}\s{1,9}password\s{1,9}|sshpass\s{1,3}-p\s{0,3}|login\b[^\n]{0,80}?\s-p\s{1,3})"
    rf"['\"]?(?P<plain>{_PLAIN})"
)
_HEADER = re.compile(
    r"(?i)authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<how>bearer|basic|token|apikey)\s{1,3}"
    r"(?P<plain>[A-Za-z0-9+/=_.~-]{12,4000})"
)
_DOCKER = re.compile(r"\"auth\"\s{0,3}:\s{0,3}\"(?P<plain>[A-Za-z0-9+/]{8,400}={0,2})\"")
_URL = re.compile(r"://[^\s/:@\"'<>]{0,128}:(?P<plain>[^\s/@\"'<>]{3,256})@[A-Za-z0-9\[]")

_NO_NAME = re.compile(
    r"(?i)hash|sha\d|md5|digest|checksum|salt|file|path|dir|(?:^|[_-])(?:id|ids)$|name|ur[il]|type|count|max|min|len|size"
    r"|limit|ttl|expir|regex|pattern|field|label|format|prefix|suffix|header|public|kind|ref|policy|index|version"
)
_NO_VALUE = re.compile(
    r"(?i)^[$%{<*&@#/.~!=:+-]|://|\$[{(a-z_]|\{\{|%[({]|\.\.\.|x{4}|\*{3}|0{6}|1234567|abcdef|^[\w.-]*/[\w./-]*\.\w{1,5}$"
    r"|your|change|example|dummy|placeholder|password|passwd|secret|redact|replace|sample|insert|default|undefined"
    r"|correct.?horse|scrypt|pbkdf2|argon2|bcrypt|sha(?:256|512)|\{SSHA"
)
_WORDS = re.compile(r"[A-Za-z_]+\d{0,3}(?:(?:[-._:/]|->|::)(?:[A-Za-z_]+\d{0,3}|\d{1,2}))*")
_HEX = re.compile(r"(?:0x)?[0-9a-fA-F]{16,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_STRONG_NAME = re.compile(r"(?i)secret|api[_-]?key|passw|(?:access|auth|deploy|bot)[_-]?token")
_NUMBER = re.compile(r"[\d.,:+/TZ-]+")
MIN_BITS = 2.75
"""Entropy per character below which a value after a telling name is taken for a word."""


def secrets(view: View, detector: Detector) -> Iterator[Hit]:
    """Credentials by form, then those that a name, a header or an address gives away."""
    yield from _detected(view.text, detector)
    yield from _formed(view)
    yield from _told(view)


class Detector:
    """The rules of Kingfisher, compiled when they are first needed. Make one and share it, also between threads."""

    def __init__(self, cache: Path) -> None:
        """Compiling takes seconds; what comes of it is kept in `cache`, a folder that only we write to."""
        self.cache = cache
        self._lock = threading.Lock()
        self._scanner: Scanner | None = None

    def scanner(self) -> Scanner:
        with self._lock:
            if self._scanner is None:
                self.cache.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._scanner = Scanner(Rules(confidence="medium", cache_dir=self.cache))
            return self._scanner


def _detected(text: str, detector: Detector) -> Iterator[Hit]:
    """Raises TimeoutError for a text that keeps the detector busy for longer than TIMEOUT_S."""
    # The detector's rule for private keys takes minutes for a text of many beginnings, and ours finds them anyway.
    data = text.replace("\0", " ").replace("PRIVATE KEY", "PRIVATE_KEY").encode("utf-8", "replace")
    for finding in detector.scanner().scan(data, timeout=TIMEOUT_S):
        rule = re.sub(r"\.\d+$", "", finding.rule_id.partition(".")[2])
        if _NO_CREDENTIAL.search(rule) or finding.secret.endswith("EXAMPLE") or _SHOWN_TOKEN in finding.secret:
            continue
        if rule in _GENERIC and not credible(finding.secret.rpartition(":")[2], "password"):
            continue
        place = finding.location
        start = len(data[: place["start_offset"]].decode("utf-8", "ignore"))
        end = start + len(data[place["start_offset"] : place["end_offset"]].decode("utf-8", "ignore"))
        yield Hit(f"secret.{re.sub(r'[^a-z0-9]+', '_', rule.lower().removeprefix('secrets/'))}", start, end, start)


def _formed(view: View) -> Iterator[Hit]:
    for found in _AWS.finditer(view.text):
        if not found[0].endswith("EXAMPLE") and not view.text[found.start() - 1 : found.start()].isalnum():
            yield Hit("secret.aws_access_token", found.start(), found.end(), found.start())
    for found in _BOT.finditer(view.text):
        number = re.search(r"(?<!\d)\d{8,10}\Z", view.text[max(0, found.start() - 11) : found.start()])
        if number:
            start = found.start() - len(number[0])
            yield Hit("secret.telegram_bot_api_token", start, found.end(), start)
    if "PRIVATE KEY" in view.text:
        yield from _private_keys(view.text)


def _private_keys(text: str) -> Iterator[Hit]:
    for found in _KEY_BLOCK.finditer(text):
        yield Hit("secret.private_key", found.start(), found.end(), found.start())
    for found in _KEY_END.finditer(text):
        start = found.start()
        for line in reversed(text[max(0, start - OVERLAP) : start].splitlines(keepends=True)):
            if not _KEY_LINE.fullmatch(line):
                break
            start -= len(line)
        if start < found.start():
            start += len(text[start : found.end()]) - len(text[start : found.end()].lstrip())
            yield Hit("secret.private_key", start, found.end(), start)


def _told(view: View) -> Iterator[Hit]:
    for found in view.beginning(_NAMES, _NAMED):
        part = "quoted" if found["quoted"] else "plain"
        before = view.text[max(0, found.start() - 24) : found.start()]
        name = re.search(r"[A-Za-z0-9_-]*\Z", before)
        if found[0][:3].lower() == "key" and not _KEY_OWNER.search(before):
            continue
        if credible(found[part], (name[0] if name else "") + found["name"]):
            yield Hit("secret.password", *found.span(part), found.start(part))
    spoken = ("password", view.beginning(_SPEECH, _SPOKEN))
    for kind, matches in (spoken, ("url_password", _URL.finditer(view.text))):
        for found in matches:
            if credible(found["plain"], "password"):
                yield Hit(f"secret.{kind}", *found.span("plain"), found.start("plain"))
    for found in view.beginning(("authorization",), _HEADER):
        if found["how"].lower() == "basic" or credible(found["plain"], "api_key"):
            yield Hit("secret.authorization", *found.span("plain"), found.start("plain"))
    for found in _DOCKER.finditer(view.text):
        if _is_login(found["plain"]):
            yield Hit("secret.authorization", *found.span("plain"), found.start("plain"))


def credible(value: str, name: str) -> bool:
    """Whether a value looks made at random, or like a password that somebody thought of: not a word, a reference, a
    number, a path or a form of a stored hash."""
    if _NO_NAME.search(name) or _NO_VALUE.search(value) or _NUMBER.fullmatch(value) or " " in value.strip():
        return False
    if _WORDS.fullmatch(value) and not _is_scrambled(value):
        return False
    if not (re.search(r"[A-Za-z]", value) and (re.search(r"\d", value) or _is_scrambled(value))):
        return False
    if _HEX.fullmatch(value) and not _STRONG_NAME.search(name):
        return False
    return _bits(value) >= MIN_BITS


def _is_scrambled(value: str) -> bool:
    """Whether capitals stand closer together than in names that are put together from words."""
    humps = re.findall(r"[A-Z]?[a-z]+|[A-Z]{2,}(?![a-z])|[A-Z]", value)
    return len(humps) >= 4 and value != value.upper() and len("".join(humps)) / len(humps) < 2.6


def _bits(value: str) -> float:
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


def _is_login(value: str) -> bool:
    try:
        return b":" in base64.b64decode(value, validate=True)
    except binascii.Error:
        return False
