"""One spelling per destination; what has two readings is refused."""

from __future__ import annotations

import ipaddress

import pytest

from agentv_sandbox.egress.endpoint import (
    Endpoint,
    Refused,
    addresses,
    is_public,
    parse_allow,
    parse_endpoint,
)

SAME = [
    ("example.com:443", "example.com:443"),
    ("EXAMPLE.com:443", "example.com:443"),
    ("example.com.:443", "example.com:443"),
    ("localhost:8080", "127.0.0.1:8080"),
    ("LOCALHOST.:8080", "127.0.0.1:8080"),
    ("10.0.0.1:80", "10.0.0.1:80"),
    ("[::1]:80", "[::1]:80"),
    ("[0:0:0:0:0:0:0:1]:80", "[::1]:80"),
    ("[::FFFF:127.0.0.1]:80", "127.0.0.1:80"),
    ("xn--bcher-kva.example:443", "xn--bcher-kva.example:443"),
]

NEVER = [
    "example.com",  # no port
    "example.com:",
    "example.com:0",
    "example.com:0443",
    "example.com:+443",
    "example.com:443 ",
    "example.com:65536",
    "example.com:４４３",  # full-width digits
    "example.com:443:80",
    "example..com:443",
    "example.com..:443",
    ".example.com:443",
    "-a.example.com:443",
    "user@example.com:443",
    "user:password@example.com:443",
    "example.com%2eevil.org:443",
    "example.com%00.evil.org:443",
    "example.com\x00.evil.org:443",
    "example.com\t.evil.org:443",
    "exa mple.com:443",
    "example.com\n:443",
    "example.com/path:443",
    "example.com?x:443",
    "example.com#x:443",
    "example.com\\evil.org:443",
    "éxample.com:443",
    "a" * 64 + ".com:443",
    "127.1:80",
    "127.0.0.01:80",
    "0177.0.0.1:80",
    "0x7f.0.0.1:80",
    "0x7f000001:80",
    "2130706433:80",
    "example.0x1:80",
    "256.0.0.1:80",
    "::1:80",
    "[::1:80",
    "[fe80::1%eth0]:80",
    "[127.0.0.1]:80",
    "[::1]",
    "[::1]80x",
    "",
    ":443",
]


@pytest.mark.parametrize(("text", "canonical"), SAME)
def test_spellings_of_one_destination(text: str, canonical: str) -> None:
    assert str(parse_endpoint(text)) == canonical


@pytest.mark.parametrize("text", NEVER)
def test_spellings_that_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        parse_endpoint(text)


def test_an_allow_entry_may_be_written_in_its_own_script() -> None:
    assert str(parse_allow("bücher.example:443")) == "xn--bcher-kva.example:443"


@pytest.mark.parametrize(
    "entry", ["example.com", "[::1]", "https://example.com", "*.example.com:443", "*:443"]
)
def test_allow_entries_that_are_none(entry: str) -> None:
    with pytest.raises(Refused):
        parse_allow(entry)


PUBLIC = {
    "93.184.216.34": True,
    "2606:4700::1111": True,
    "64:ff9b::5db8:d822": True,
    "10.1.2.3": False,
    "172.16.0.1": False,
    "192.168.1.1": False,
    "127.0.0.1": False,
    "0.0.0.0": False,
    "100.64.0.1": False,
    "169.254.169.254": False,
    "198.18.0.1": False,
    "224.0.0.1": False,
    "255.255.255.255": False,
    "::": False,
    "::1": False,
    "::127.0.0.1": False,
    "::ffff:10.0.0.1": False,
    "64:ff9b::7f00:1": False,
    "64:ff9b:1::1": False,
    "2002:7f00:1::": False,
    "2001:0:1::1": False,
    "2001:0:4136:e378:8000:63bf:a247:2729": False,  # Teredo, for a public address
    "2002:5db8:d822::1": True,
    "fc00::1": False,
    "fe80::1": False,
    "fec0::1": False,
    "fd00:ec2::254": False,
    "ff02::1": False,
}


@pytest.mark.parametrize(("text", "public"), PUBLIC.items())
def test_public_addresses(text: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(text)) is public


def resolver(*found: str):
    return lambda _host: list(found)


NAME = Endpoint("api.example", 443)


def test_a_public_name_resolves_once_and_to_public_addresses() -> None:
    asked = []

    def resolve(host: str) -> list[str]:
        asked.append(host)
        return ["93.184.216.34", "2606:4700::1111"]

    assert addresses(NAME, {NAME}, resolve) == ["93.184.216.34", "2606:4700::1111"]
    assert asked == ["api.example"]


@pytest.mark.parametrize("inside", ["127.0.0.1", "169.254.169.254", "10.0.0.8", "fe80::1%2", "::1"])
def test_a_name_that_leads_inside_is_refused_even_beside_a_public_address(inside: str) -> None:
    with pytest.raises(Refused, match="not a public address"):
        addresses(NAME, {NAME}, resolver("93.184.216.34", inside))


def test_an_inner_address_works_for_a_name_when_it_is_listed_with_the_same_port() -> None:
    inner = Endpoint("10.0.0.8", 443)
    assert addresses(NAME, {NAME, inner}, resolver("10.0.0.8")) == ["10.0.0.8"]
    with pytest.raises(Refused):
        addresses(NAME, {NAME, Endpoint("10.0.0.8", 80)}, resolver("10.0.0.8"))


def test_an_address_is_not_looked_up() -> None:
    assert addresses(Endpoint("10.0.0.8", 80), set(), resolver()) == ["10.0.0.8"]
