"""Which hosts and addresses the guard lets through; no look-up, no socket."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import ConfigurationError, ForbiddenError, InvalidInputError
from rag.providers.http.addresses import AllowedHosts, parse_host

PRIVATE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.254",
    "127.0.0.1",
    "127.8.9.10",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "100.100.100.200",
    "168.63.129.16",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd12:3456::1",
    "ff02::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "100::1",
    # Others carry an IPv4 address inside: 6to4, NAT64, Teredo, ISATAP.
    "2002:7f00:1::1",
    "2002:a00:1::",
    "2002:a9fe:a9fe::1",
    "2002:808:808::1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::808:808",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2a00:1450::5efe:7f00:1",
    "2a00:1450::200:5efe:a00:1",
]
PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.1",
    "172.32.0.1",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001:81b::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2a00:1450::5efe:808:808",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_on_the_public_internet_is_refused(address: str) -> None:
    found = ipaddress.ip_address(address)
    with pytest.raises(ForbiddenError, match="no address of the public internet"):
        AllowedHosts(()).check(found, [found])
    with pytest.raises(ForbiddenError, match=r"evil\.example leads to .*RAG_FETCH_HOSTS"):
        AllowedHosts(()).check("evil.example", [found])


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_on_the_public_internet_may_be_called(address: str) -> None:
    AllowedHosts(()).check("example.org", [ipaddress.ip_address(address)])


def test_one_private_address_among_public_ones_is_enough() -> None:
    addresses = [IPv4Address("8.8.8.8"), IPv4Address("10.0.0.1"), IPv4Address("1.1.1.1")]
    with pytest.raises(ForbiddenError, match=r"10\.0\.0\.1"):
        AllowedHosts(()).check("mixed.example", addresses)


@given(st.ip_addresses(v=4))
def test_an_address_in_disguise_gets_the_verdict_of_the_address(inner: IPv4Address) -> None:
    number = int(inner)
    disguises = [
        IPv6Address((0xFFFF << 32) | number),
        IPv6Address((0x0064FF9B << 96) | number),
        IPv6Address((0x2A001450 << 96) | (0x5EFE << 32) | number),
    ]
    wanted = verdict(inner)
    assert [verdict(one) for one in disguises] == [wanted] * 3


def verdict(address: IPv4Address | IPv6Address) -> bool:
    try:
        AllowedHosts(()).check("x.example", [address])
    except ForbiddenError:
        return False
    return True


@pytest.mark.parametrize(
    ("entry", "host", "address"),
    [
        ("intranet", "intranet", "10.0.0.5"),
        ("Intranet.Corp.", "intranet.corp", "192.168.0.5"),
        ("bücher.example", "xn--bcher-kva.example", "10.0.0.5"),
        ("10.0.0.0/8", "anything.example", "10.1.2.3"),
        ("10.0.0.7/8", "anything.example", "10.1.2.3"),
        ("127.0.0.1", "localhost", "127.0.0.1"),
        ("127.0.0.1", "localhost", "::ffff:127.0.0.1"),
        ("[::1]", "localhost", "::1"),
        ("fd00::/8", "v6.corp", "fd12::9"),
        ("169.254.169.254", "metadata.corp", "169.254.169.254"),
        ("0x7f.1", "localhost", "127.0.0.1"),
    ],
)
def test_what_is_listed_may_be_called(entry: str, host: str, address: str) -> None:
    AllowedHosts([entry]).check(host, [ipaddress.ip_address(address)])


@pytest.mark.parametrize(
    ("entry", "host", "address"),
    [
        ("intranet", "other", "10.0.0.5"),
        ("intranet", "x.intranet", "10.0.0.5"),
        ("10.0.0.0/24", "x.example", "10.0.1.1"),
        ("127.0.0.1", "localhost", "127.0.0.2"),
        # Whoever answers for a listed name must not get at a machine's credentials with it.
        ("intranet", "intranet", "169.254.169.254"),
        ("intranet", "intranet", "fd00:ec2::254"),
        ("intranet", "intranet", "0.0.0.0"),
    ],
)
def test_what_is_not_quite_listed_is_refused(entry: str, host: str, address: str) -> None:
    with pytest.raises(ForbiddenError):
        AllowedHosts([entry]).check(host, [ipaddress.ip_address(address)])


def test_a_refusal_says_which_entry_would_allow_it() -> None:
    with pytest.raises(ForbiddenError, match=r"add intranet to RAG_FETCH_HOSTS"):
        AllowedHosts(()).check("intranet", [IPv4Address("10.0.0.1")])
    with pytest.raises(ForbiddenError, match=r"add 169\.254\.169\.254 to RAG_FETCH_HOSTS"):
        AllowedHosts(()).check("intranet", [IPv4Address("169.254.169.254")])


@pytest.mark.parametrize(
    "entry", ["http://intranet", "a b", "10.0.0.0/99", "*.corp", "host:80", ""]
)
def test_an_entry_that_is_no_host_is_an_error_that_names_it(entry: str) -> None:
    with pytest.raises(ConfigurationError, match=f"“{entry}”".replace("*", r"\*")):
        AllowedHosts([entry])


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x7F.0.0.1", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1.", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("169.254.43518", "169.254.169.254"),
        ("3232235777", "192.168.1.1"),
        ("::1", "::1"),
        ("0:0:0:0:0:ffff:7f00:1", "::ffff:7f00:1"),
    ],
)
def test_an_address_is_read_in_any_spelling(raw: str, read: str) -> None:
    assert parse_host(raw) == ipaddress.ip_address(read)


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("Example.ORG", "example.org"),
        ("example.org.", "example.org"),
        ("my_service", "my_service"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("例子.测试", "xn--fsqu00a.xn--0zwm56d"),
        ("10.example", "10.example"),
    ],
)
def test_a_name_has_one_spelling(raw: str, name: str) -> None:
    assert parse_host(raw) == name


@pytest.mark.parametrize(
    "raw",
    [
        "",
        ".",
        "a..b",
        "-a.example",
        "127%2e0.0.1",
        "fe80::1%eth0",
        "fe80::1%25eth0",
        "a b",
        "a/b",
        "a@b",
        "256.1.1.1",
        "1.2.3.4.5",
        "0x1ffffffff",
        "08.1.1.1",
        "foo.0x",
        "foo.1",
        "::g",
        "a" * 64,
        "a." * 130 + "a",
        "①②⑦.⓪.⓪.①",
        "a\x00b",
        "a\nb",
    ],
)
def test_what_is_no_host_is_refused_without_quoting_it(raw: str) -> None:
    with pytest.raises(InvalidInputError, match="neither a name nor an address"):
        parse_host(raw)


@given(st.text(max_size=40))
def test_reading_a_host_never_fails_otherwise(raw: str) -> None:
    try:
        read = parse_host(raw)
    except InvalidInputError:
        return
    if isinstance(read, str):
        assert read == parse_host(read)
        assert read.isascii()
