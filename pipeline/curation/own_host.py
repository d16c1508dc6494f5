"""Traces of the machine that made a row: its folders, user, names, proxies, mirrors, secrets and containers.

What the machine is comes in as facts; the caller reads the environment. A fact is replaced wherever it stands, unless
it is too short or too common to be a trace:
- a folder has two parts or more and is none of the system; `/work` and `/root`, which images have too, are never one;
- a user or machine name has six characters or more and is none that images and examples use (`runner`, `ubuntu`); a
  shorter one is replaced only where it is surely the name (`/home/NAME`, `@NAME`);
- the address of a proxy or mirror is no loopback address;
- a variable of the environment is secret when its name says so and its value is no path, number or plain word.

Containers' names are found without a fact: `root@4f9d1c07be52:`, paths of container engines.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from pipeline.curation.scrub_views import Hit, View
from pipeline.curation.scrub_words import MACHINES, NOBODY
from pipeline.types import Record

LONG_NAME = 6
"""Characters from which a name of a user or a machine is replaced wherever it stands."""
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var")
_SECRET_NAME = re.compile(
    r"(?i)(?:tokens?|secret|passw(?:or)?d|passphrase|pwd|api_?key|access_?key|credentials?|private_?key|auth|cookie"
    r"|_key|_pat)$"
)
_ADDRESS_NAME = re.compile(
    r"(?i)(?:proxy|mirror|index_url|extra_index|registry|find_links|endpoint|_url|_host|base_url|goproxy|remote)$"
)
_PLAIN = re.compile(r"[A-Za-z]*|[\d.]*|[/~].*", re.DOTALL)
_ORDINARY = NOBODY | MACHINES
_PROMPT = re.compile(r"@(?=[0-9a-f]{0,11}\d)(?=[0-9a-f]{0,11}[a-f])(?P<id>[0-9a-f]{12})(?=[:\s])")
_ENGINES = ("docker", "containers", "overlay2", "libpod")
_ENGINE = re.compile(rf"(?:{'|'.join(_ENGINES)})[/-](?P<id>[0-9a-f]{{64}}|[0-9a-f]{{32}})(?![0-9a-f])")


class HostFacts(Record):
    """What a machine is known by; values that are no trace (see above) are left out by `host_facts`."""

    paths: tuple[str, ...] = ()
    """Absolute folders: data, checkout, homes."""
    users: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Of the machine, with and without its domain."""
    addresses: tuple[str, ...] = ()
    """URLs, `host:port` and hosts of proxies, mirrors and registries."""
    secrets: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    """Ids of containers."""


def host_facts(
    environment: Mapping[str, str],
    *,
    user: str,
    host: str,
    paths: Iterable[str],
    addresses: Iterable[str] = (),
    containers: Iterable[str] = (),
) -> HostFacts:
    """The facts, as far as they are traces. `addresses` are those that the configuration names; the public ones that
    everybody uses are better left out, or they are replaced as well."""
    named = [*addresses]
    for variable, value in environment.items():
        if _ADDRESS_NAME.search(variable):
            named += [part for part in re.split(r"[\s,|]+", value) if "." in part or ":" in part]
    secrets = {
        part
        for variable, value in environment.items()
        if _SECRET_NAME.search(variable)
        for part in (value, *re.split(r"[\s,]+", value))  # a variable may hold several
        if len(part) >= 8 and not _PLAIN.fullmatch(part)
    }
    short = host.partition(".")[0]
    return HostFacts(
        paths=_ordered(str(PurePosixPath(path)) for path in paths if _is_trace(path)),
        users=_ordered(name for name in (user,) if name.lower() not in _ORDINARY and len(name) > 1),
        names=_ordered(name for name in (host, short) if name.lower() not in _ORDINARY and len(name) > 1),
        addresses=_ordered(form for address in named for form in _forms(address)),
        secrets=_ordered(secrets | {part for address in named for part in _password(address)}),
        containers=_ordered(container for container in containers if len(container) >= 12),
    )


def host_traces(view: View, host: HostFacts) -> Iterator[Hit]:
    """Where the facts stand, in any case of the letters for names and addresses."""
    for kind, values in (("host.secret", host.secrets), ("host.path", host.paths), ("host.container", host.containers)):
        for value in values:
            # Each place: one of them may be coded as the others are not.
            for at in _places(view.text, value):
                yield Hit(kind, at, at + len(value), at + (kind == "host.path"))
    for value in host.addresses:
        yield from _in_any_case(view, "host.address", value)
    for kind, values in (("host.user", host.users), ("host.name", host.names)):
        for value in values:
            yield from _in_any_case(view, kind, value) if len(value) >= LONG_NAME else _surely(view, kind, value)
    for found in (*_PROMPT.finditer(view.text), *view.beginning(_ENGINES, _ENGINE)):
        yield Hit("host.container", *found.span("id"), found.start("id"))


def _in_any_case(view: View, kind: str, value: str) -> Iterator[Hit]:
    for at in _places(view.lower, value.lower()):
        yield Hit(kind, at, at + len(value), at)


def _places(text: str, value: str) -> Iterator[int]:
    at = text.find(value)
    while at >= 0:
        yield at
        at = text.find(value, at + 1)


def _surely(view: View, kind: str, value: str) -> Iterator[Hit]:
    before = "/(?:home|Users)/" if kind == "host.user" else "@"
    for found in re.finditer(rf"{before}(?P<name>{re.escape(value)})(?![\w.-])", view.text):
        yield Hit(kind, found.start(), found.end(), found.start("name"))


def _is_trace(path: str) -> bool:
    parts = PurePosixPath(path).parts
    if len(parts) < 3 or parts[0] != "/" or f"/{parts[1]}" in _SYSTEM:
        return False
    return len(parts) > 3 or parts[1] not in ("home", "Users", "root") or parts[2].lower() not in NOBODY


def _forms(address: str) -> Iterator[str]:
    """A URL, then `host:port`, then the host, each only when it says more than that something is on this machine."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    host = (parts.hostname or "").lower()
    if not host or _is_loopback(host):
        return
    if "://" in address:
        yield address.rstrip("/")
    try:
        port = parts.port
    except ValueError:
        port = None
    if port:
        yield f"{host}:{port}"
    if "." in host and host not in _ORDINARY:
        yield host


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host == "localhost"


def _password(address: str) -> Iterator[str]:
    password = urlsplit(address).password if "://" in address else None
    if password and len(password) >= 6:
        yield password


def _ordered(values: Iterable[str]) -> tuple[str, ...]:
    """Longest first, without repetitions."""
    return tuple(sorted(set(values), key=lambda value: (-len(value), value)))
