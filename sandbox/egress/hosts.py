"""Names and addresses: what a host name is, which patterns allow it, and which addresses nobody may reach.

Standard library only: the proxy runs before any package is installed. Nothing is resolved or connected here.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

WEB_PORTS = (80, 443)
_NAME = re.compile(r"(?=.{1,253}$)(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
# Networks of an organisation: a mirror may be there, which the configuration then names.
_PRIVATE = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
# Addresses of machines and of what runs them, in every spelling; the last ones are the metadata services of clouds that
# stand outside of the link-local range. The ranges for documentation are not here: on a real network nothing is there.
_NEVER = (
    *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"),
    *("::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2002::/16", "fe80::/10", "fec0::/10"),
    *("ff00::/8", "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128"),
)
_PRIVATE_NETWORKS = tuple(map(ipaddress.ip_network, _PRIVATE))
_NEVER_NETWORKS = tuple(map(ipaddress.ip_network, _NEVER))


@dataclass(frozen=True)
class HostPattern:
    """One entry of an allow-list: `example.org`, `*.example.org`, each with `:port` where it is no port of the web."""

    host: str
    """A canonical host, after `*.` when all names below it are meant (and not itself)."""
    port: int | None = None
    """None for the ports of the web, 80 and 443."""

    @classmethod
    def parse(cls, text: str) -> HostPattern:
        """Raises ValueError that says what is wrong."""
        star, rest = ("*.", text[2:]) if text.startswith("*.") else ("", text)
        host, port = split_port(rest)
        if star and _address(host) is not None:
            raise ValueError(f"{text!r}: an address has no names below it")
        return cls(star + canonical(host), port)

    @property
    def exact(self) -> bool:
        """Whether one host is meant, and not all below a name."""
        return not self.host.startswith("*.")

    def matches(self, host: str, port: int) -> bool:
        """Whether a canonical host is meant."""
        if port not in (WEB_PORTS if self.port is None else (self.port,)):
            return False
        return host == self.host if self.exact else host.endswith(self.host[1:])

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"


def matching(patterns: Iterable[HostPattern], host: str, port: int) -> bool:
    """Whether any pattern means a canonical host."""
    return any(pattern.matches(host, port) for pattern in patterns)


def canonical(host: str) -> str:
    """The one spelling of a host name or an address. Raises ValueError for what is neither."""
    address = _address(host)
    if address is not None:
        return str(address)
    name = host.lower().removesuffix(".")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{host[:100]!r} is no host name")
    return name


def split_port(text: str) -> tuple[str, int | None]:
    """Host (without brackets) and port of `host`, `host:port`, `[address]` or `[address]:port`. Raises ValueError."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or _address(host) is None or rest[:1] not in ("", ":"):
            raise ValueError(f"{text[:100]!r} is no address in brackets")
        port = rest[1:] if rest else None
    elif text.count(":") > 1:
        raise ValueError(f"{text[:100]!r}: an address with colons stands in brackets")
    else:
        host, colon, rest = text.partition(":")
        port = rest if colon else None
    if port is None:
        return host, None
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise ValueError(f"{text[:100]!r} has no port that there is")
    return host, int(port)


def is_never_reached(address: str) -> bool:
    """Whether an address is one that no request may reach: this machine, its link, metadata services, multicast."""
    return _within(address, _NEVER_NETWORKS)


def is_private(address: str) -> bool:
    """Whether an address belongs to an organisation's own network."""
    return _within(address, _PRIVATE_NETWORKS)


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _within(text: str, networks: tuple[Network, ...]) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in networks)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
