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

import ipaddress
import re
from collections.abc import Iterator

import phonenumbers

from pipeline.curation.scrub_views import Hit, View

_AT = re.compile(r"@((?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,18})(?![A-Za-z0-9_-])")
_LOCAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}\Z")
_DOMAINS = frozenset(
    "com org net edu gov mil int info biz name dev app email cloud online site tech me io ai co xyz pro systems software"
    " berlin cat eus gal scot wales paris london tokyo moe sexy ninja space club life world works team group network"
    " solutions agency codes engineering institute academy university social link page live mobi asia museum".split()
)
# Two letters that end file names more often than addresses; `.com.py` and the like are addresses still.
_FILES = frozenset("py sh so md js ts rb hs pm ps gz bz xz db vb cs qt kt mo po ko mk tf".split())
_ROLES = frozenset(
    "info support help helpdesk admin administrator sales contact security abuse webmaster postmaster hostmaster noreply"
    " no-reply donotreply do-not-reply nobody root bugs bug dev devel developers team hello list lists owner request press"
    " legal privacy office mail mailer-daemon git hg svn cvs user username users you me name your-name your.name yourname"
    " your_name your.email your-email youremail email test tester foo bar baz example daemon news jobs licensing license"
    " maintainers maintainer packages opensource open-source oss conduct coc builder build ci bot github gitlab ubuntu"
    " debian ec2-user deploy postgres mysql www-data feedback community copyright permissions security-alert service"
    " notifications notification first.last firstname.lastname someone somebody somename anonymous guest system myname"
    " john.doe jane.doe johndoe janedoe john jane alice bob joe a b x y foo.bar foobar abc xyz demo recipient sender"
    " to from webapp app server client customer billing accounts account marketing hr it ops devops".split()
)
_ROLE_TAILS = ("-list", "-dev", "-devel", "-users", "-user", "-announce", "-bugs", "-discuss", "-team", "-maint",
               "-maintainers", "-security", "-help", "-support", "-request", "-commits", "-bot", "[bot]")  # fmt: skip
_NOT_PERSONAL = re.compile(
    r"(?i)(?:^|\.)(?:example|examples|invalid|test|localhost|local|localdomain|internal|lan)(?:\.(?:com|org|net|edu|co))?$"
    r"|^(?:lists?|bugs|tracker|packages|qa|groups|listserv)\.|\.lists\.|^googlegroups\.com$|(?:^|\.)noreply\."
    r"|^(?:your|my|some)[\w-]*\.(?:com|org|net|io)$|^(?:domain|email|host|hostname|company|foo|bar|baz|server|site|mail|abc"
    r"|xyz|acme|a|b|c|x|y)\.(?:com|org|net|io|co)$"
)

_CALLS = ("tel", "phone", "mobile", "fax", "cell", "whatsapp", "call")
_CALL = re.compile(
    r"(?i)(?:tel(?:efon|ephone|\.|:|:\s|\s?no)?|phone|mobile|fax|cell|whatsapp|call)\b"
    r"[^\d+(\n]{0,24}(?P<number>\+?\(?\d[\d ()./-]{6,22}\d)"
)
_INTERNATIONAL = re.compile(
    r"\+(?<![\w+./(-]\+)(?P<number>[1-9]\d{0,2}[ -]\(?\d{1,5}\)?(?:[ -]\d{2,8}){1,5})(?![\w-])"
)
_FICTIONAL = re.compile(r"555\D?01\d\d\Z|555\D?\d{4}\Z")

_HOMES = ("/home/", "/users/", "\\users\\")
_HOME = re.compile(
    r"(?:/home/|/Users/|\\Users\\)(?P<name>[A-Za-z][\w.-]{0,30}[A-Za-z0-9])(?=[\\/\s\"'`:;,)\]}>&|<\0]|\.?$)", re.MULTILINE
)
NOBODY = frozenset(
    "user users username usr name yourname your_name your-name youruser myuser my_user me you ubuntu debian vagrant"
    " runner runneradmin circleci travis jenkins node app apps admin administrator git www www-data work worker workspace"
    " build builder buildkite builduser docker dev developer devel test tester testuser testing guest pi ec2-user centos"
    " fedora alpine arch nix nixbld vscode gitpod jovyan coder codespace linuxbrew homebrew postgres mysql nginx apache"
    " deploy deployer ci bot shared public default foo bar baz example demo sample student agent sandbox model oracle"
    " someone somebody alice bob carol john jane johndoe janedoe jdoe appuser nonroot nobody root service steam ftp mail"
    " backup data local linux rstudio airflow spark hadoop flutter node_modules bin lib etc all.users".split()
)

_IPV4_TAIL = re.compile(r"\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![\w-]|\.\d)")
_IPV4_HEAD = re.compile(r"(?<![\w.-])\d{1,3}\Z")
_IPV6 = re.compile(r"(?<![\w:.])[23][0-9a-fA-F]{3}:(?:[0-9a-fA-F]{0,4}:){1,6}[0-9a-fA-F]{0,4}(?![\w:.])")
_RESOLVERS = frozenset("8.8.8.8 8.8.4.4 1.1.1.1 1.0.0.1 9.9.9.9 149.112.112.112 208.67.222.222 208.67.220.220".split())
_PROGRAM = re.compile(r"(?i)(?:[a-z]/|\bv|version[ =:\"(]{1,4}|ver[ .]|release |==|>=|<=|~=|oid[ :=]{1,2})\Z")
VERSION_PART = 32
"""Of four numbers, all but one below this are taken for a version or an object identifier."""


def personal(view: View) -> Iterator[Hit]:
    """Personal data, by the rules at the head of this file."""
    yield from _emails(view.text)
    yield from _telephones(view)
    for found in view.beginning(_HOMES, _HOME):
        before = view.text[found.start() - 1 : found.start()] if found.start() else ""
        if found["name"].lower() not in NOBODY and not re.match(r"[\w.-]", before):
            yield Hit("personal.user", found.start(), found.end("name"), found.start("name"))
    yield from _addresses(view)


def _addresses(view: View) -> Iterator[Hit]:
    for tail in _IPV4_TAIL.finditer(view.text):
        head = _IPV4_HEAD.search(view.text, max(0, tail.start() - 4), tail.start())
        if not head or _PROGRAM.search(view.text[max(0, head.start() - 12) : head.start()]):
            continue
        if _is_public(view.text[head.start() : tail.end()]):
            yield Hit("personal.ip", head.start(), tail.end(), head.start())
    if view.text.count(":") > 2:
        for found in _IPV6.finditer(view.text):
            if _is_public(found[0]):
                yield Hit("personal.ip", found.start(), found.end(), found.start())


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
    known = top in _DOMAINS or (len(top) == 2 and (top not in _FILES or parts[-2] in ("com", "org", "net", "edu")))
    if not known or _NOT_PERSONAL.search(domain):
        return False
    plain = local.partition("+")[0]
    return not (plain in _ROLES or plain.endswith(_ROLE_TAILS) or plain.startswith(("noreply", "no-reply")) or local.isdigit())


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
    if not 8 <= sum(map(str.isdigit, written)) <= 15 or _FICTIONAL.search(written.strip()):
        return False
    try:
        number = phonenumbers.parse(written, None if written.startswith("+") else "US")
    except phonenumbers.NumberParseException:
        return False
    return phonenumbers.is_valid_number(number)


def _is_public(written: str) -> bool:
    try:
        address = ipaddress.ip_address(written)
    except ValueError:
        return False
    if not address.is_global or address.is_multicast or written in _RESOLVERS:
        return False
    return address.version == 6 or sum(part >= VERSION_PART for part in address.packed) > 1
