"""Personal data in a text: addresses of persons, telephone numbers, homes of users, public network addresses.

- E-mail: an address below a known top-level domain that is neither a role (`security@`, `noreply@`, a mailing list) nor
  of documentation (example.org, .invalid, .test) nor the user part of an address of a server (`git@host:path`).
- Telephone: only where a word beside it says so or the number is written in international form with its groups, and
  libphonenumber knows it as valid.
- Home: the name in `/home/NAME`, `/Users/NAME`, `C:\\Users\\NAME`, unless it is one that images and examples use.
- Network: IPv4 and IPv6 addresses of the public internet. Not: private, loopback and documentation ranges, well-known
  resolvers, and four small numbers in a row, which are versions and object identifiers.

Not found: names and postal addresses, birthdays, numbers of documents and accounts, e-mail written as `name at host`,
user names outside of a home (`ls -l`, prompts). Finding names needs language models of hundreds of megabytes, which
take every function and file for a person.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterator

import phonenumbers

from pipeline.curation.scrub_views import Hit, View
from pipeline.curation.scrub_words import FILE_ENDINGS, NOBODY, RESOLVERS, ROLES, TOP_LEVEL

_AT = re.compile(r"@((?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,18})(?![A-Za-z0-9_-])")
_LOCAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}\Z")
_ROLE_TAILS = ("-list", "-dev", "-devel", "-users", "-user", "-announce", "-bugs", "-discuss", "-team", "-maint",
               "-maintainers", "-security",
    "-admins",
    "-admin", "-help", "-support", "-request", "-commits", "-bot", "[bot]")  # fmt: skip
_NOT_PERSONAL = re.compile(
    r"(?i)(?:^|\.)(?:example|examples|invalid|test|localhost|local|localdomain|internal|lan)(?:\.(?:com|org|net|edu|co))?$"
    r"|^(?:lists?|bugs|tracker|packages|qa|groups|listserv)\.|\.lists\.|^(?:googlegroups|openssh)\.com$|^libssh\.org$|(?:^|\.)noreply\."
    r"|^(?:your|my|some)[\w-]*\.(?:com|org|net|io)$|^(?:domain|email|host|hostname|company|foo|bar|baz|server|site|mail|abc"
    r"|xyz|acme|a|b|c|x|y)\.(?:com|org|net|io|co)$"
)

_CALLS = ("tel", "phone", "mobile", "fax")
_CALL = re.compile(
    r"(?i)(?:tel(?:efon|ephone|\.|:|:\s|\s?no)?|phone|mobile|fax)\b"
    r"[^\d+(\n]{0,24}(?P<number>\+?\(?\d[\d ()./-]{6,22}\d)"
)
_INTERNATIONAL = re.compile(r"\+(?<![\w+./(-]\+)(?P<number>[1-9]\d{0,2}[ -]\(?\d{1,5}\)?(?:[ -]\d{2,8}){1,5})(?![\w-])")
_DECIMAL = re.compile(r"\d+\.\d+")
_FICTIONAL = re.compile(r"555\D?01\d\d\Z|555\D?\d{4}\Z")

_HOMES = ("/home/", "/users/", "\\users\\")
_HOME = re.compile(
    r"(?:/home/|/Users/|\\Users\\)(?P<name>[A-Za-z][\w.-]{0,30}[A-Za-z0-9])(?=[\\/\s\"'`:;,)\]}>&|<\0]|\.?$)",
    re.MULTILINE,
)
_FILE = re.compile(r"\.(?:py|sh|js|ts|txt|log|json|md|c|h|cpp|java|go|rs|php|html|conf|cfg|ini|ya?ml|tar|gz|zip|csv)$")

_IPV4_TAIL = re.compile(r"\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![\w-]|\.\d|\.in-addr)")
_IPV4_HEAD = re.compile(r"(?<![\w.-])\d{1,3}\Z")
_IPV6_TAIL = re.compile(r":[0-9a-fA-F]{0,4}:(?:[0-9a-fA-F]{0,4}:){0,5}[0-9a-fA-F]{0,4}(?![\w:.])")
_IPV6_HEAD = re.compile(r"(?<![\w:.])[23][0-9a-fA-F]{3}\Z")
_PROGRAM = re.compile(r"(?i)(?:[a-z]/|\bv|version[ =:\"(]{1,4}|ver[ .]|release |==|>=|<=|~=|oid[ :=]{1,2})\Z")
_OBJECTS = ("1.3.", "2.5.")
"""Beginnings of object identifiers."""
VERSION_PART = 32
"""Of four numbers, all but one below this are taken for a version or an object identifier."""


def personal(view: View) -> Iterator[Hit]:
    """Personal data, by the rules at the head of this file."""
    yield from _emails(view.text)
    yield from _telephones(view)
    for found in view.beginning(_HOMES, _HOME):
        before = view.text[found.start() - 1 : found.start()] if found.start() else ""
        name = found["name"].lower()
        if name not in NOBODY and not _FILE.search(name) and not re.match(r"[\w.-]", before):
            yield Hit("personal.user", found.start(), found.end("name"), found.start("name"))
    yield from _addresses(view)


def _addresses(view: View) -> Iterator[Hit]:
    for head_rule, tail_rule in ((_IPV4_HEAD, _IPV4_TAIL), (_IPV6_HEAD, _IPV6_TAIL)):
        for tail in tail_rule.finditer(view.text):
            # A slice, since a rule that looks back sees what is before the place where its search begins.
            before = view.text[max(0, tail.start() - 20) : tail.start()]
            head = head_rule.search(before, max(0, len(before) - 4))
            if not head or _PROGRAM.search(before[: head.start()]) or not _is_public(head[0] + tail[0]):
                continue
            start = tail.start() - len(head[0])
            yield Hit("personal.ip", start, tail.end(), start)


def _emails(text: str) -> Iterator[Hit]:
    for found in _AT.finditer(text):
        window = max(0, found.start() - 65)
        local = _LOCAL.search(text, window, found.start())
        if local and _is_person(local[0], found[1]) and not _is_login(text, local.start(), found.end()):
            yield Hit("personal.email", local.start(), found.end(), local.start())


def _is_person(local: str, domain: str) -> bool:
    local, domain = local.lower(), domain.lower()
    parts = domain.split(".")
    top = parts[-1]
    known = top in TOP_LEVEL or (
        len(top) == 2 and (top not in FILE_ENDINGS or parts[-2] in ("com", "org", "net", "edu"))
    )
    if not known or _NOT_PERSONAL.search(domain):
        return False
    plain = local.partition("+")[0]
    return not (
        plain in ROLES or plain.endswith(_ROLE_TAILS) or plain.startswith(("noreply", "no-reply")) or local.isdigit()
    )


def _is_login(text: str, start: int, end: int) -> bool:
    """Whether an address is the user part of a URL, which has a password before it or a server behind it."""
    return bool(re.search(r"://[^\s/\"'<>]{0,200}\Z", text[max(0, start - 210) : start])) or text.startswith(":/", end)


def _telephones(view: View) -> Iterator[Hit]:
    for found in view.beginning(_CALLS, _CALL):
        before = view.text[max(0, found.start() - 1) : found.start()]
        if not (before.isalnum() or before == "_") and _is_telephone(found["number"]):
            yield Hit("personal.phone", *found.span("number"), found.start("number"))
    for found in _INTERNATIONAL.finditer(view.text):
        if _is_telephone(found[0]):
            yield Hit("personal.phone", found.start(), found.end(), found.start())


def _is_telephone(written: str) -> bool:
    if not 8 <= sum(map(str.isdigit, written)) <= 15 or _FICTIONAL.search(written) or _DECIMAL.fullmatch(written):
        return False
    try:
        number = phonenumbers.parse(written, None if written.startswith("+") else "US")
    except phonenumbers.NumberParseException:
        return False
    return phonenumbers.is_valid_number(number)


@functools.lru_cache(maxsize=4096)
def _is_public(written: str) -> bool:
    try:
        address = ipaddress.ip_address(written)
    except ValueError:
        return False
    if not address.is_global or address.is_multicast or written in RESOLVERS:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        return address.sixtofour is None or address.sixtofour.is_global
    return not written.startswith(_OBJECTS) and sum(part >= VERSION_PART for part in address.packed) > 1
