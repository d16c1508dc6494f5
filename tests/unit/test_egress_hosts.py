"""Which names an allow-list means, and which addresses nobody may reach."""

from __future__ import annotations

import pytest

from sandbox.egress.hosts import HostPattern, canonical, is_never_reached, is_private, matching


@pytest.mark.parametrize(
    ("pattern", "host", "port", "meant"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, True),
        ("example.org", "example.org", 22, False),
        ("Example.ORG.", "example.org", 443, True),
        ("example.org", "www.example.org", 443, False),
        ("example.org", "badexample.org", 443, False),
        ("example.org", "example.org.evil.invalid", 443, False),
        ("*.example.org", "www.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "badexample.org", 443, False),
        ("*.example.org:8443", "www.example.org", 8443, True),
        ("example.org:8443", "example.org", 8443, True),
        ("example.org:8443", "example.org", 443, False),
        ("10.1.2.3:3141", "10.1.2.3", 3141, True),
        ("[2001:DB8:0::1]:8443", "2001:db8::1", 8443, True),
    ],
)
def test_a_pattern_means_exactly_its_hosts_and_ports(pattern: str, host: str, port: int, meant: bool) -> None:
    assert HostPattern.parse(pattern).matches(host, port) is meant
    assert matching([HostPattern.parse("other.invalid"), HostPattern.parse(pattern)], host, port) is meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "*.",
        "*.*.example.org",
        "exa mple.org",
        "example.org/path",
        "https://example.org",
        "example.org:",
        "example.org:0",
        "example.org:65536",
        "example.org:443:443",
        "user@example.org",
        "*.10.0.0.1",
        "::1",
        "[::1",
        "[example.org]",
        "[::1]443",
        "exämple.org",
        "example..org",
        "a" * 64 + ".org",
        "example.org\n",
        ".".join(["a" * 60] * 5),
    ],
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        HostPattern.parse(text)


def test_a_pattern_is_written_as_it_is_read() -> None:
    for text in ("example.org", "*.example.org", "example.org:8443", "[2001:db8::1]:8443", "10.0.0.1"):
        assert str(HostPattern.parse(text)) == text


def test_an_address_has_one_spelling() -> None:
    assert canonical("2001:DB8:0:0::1") == "2001:db8::1"
    assert canonical("WWW.Example.Org.") == "www.example.org"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "169.254.169.254",
        "169.254.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "ff02::1",
    ],
)
def test_machines_links_and_metadata_are_never_reached(address: str) -> None:
    assert is_never_reached(address)


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "172.31.0.1", "192.168.1.1", "100.64.0.1", "fd12::1", "::ffff:10.0.0.1"]
)
def test_networks_of_an_organisation_are_private(address: str) -> None:
    assert is_private(address) and not is_never_reached(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:2800:220:1::1"])
def test_public_addresses_are_neither(address: str) -> None:
    assert not is_private(address) and not is_never_reached(address)
