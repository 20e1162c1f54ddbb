"""SSRF guard: which hosts and IP addresses may be called.

Pure: no look-up happens here. Only the public internet may be called, and what is listed.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address

import httpx2

from rag.core.errors import ConfigurationError, ForbiddenError, InvalidInputError

Address = IPv4Address | IPv6Address

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP = {0x00005EFE, 0x02005EFE}
# ``is_global`` says yes to these, or did in some Python: protocol assignments, 6to4 and its relays
# (given up, RFC 7526), documentation, Azure's host of each machine.
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "2002::/16", "3fff::/20", "168.63.129.16/32"),
    )
)
# What hands out a cloud machine's credentials, and what no service has as its address: a listed
# name is not enough for these, since whoever answers for the name chooses the address.
_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",
            "169.254.0.0/16",
            "224.0.0.0/3",
            "100.100.100.200/32",
            "192.0.0.192/32",
            "168.63.129.16/32",
            "::/128",
            "fe80::/10",
            "ff00::/8",
            "fd00:ec2::254/128",
            "fd20:ce::254/128",
        ),
    )
)


def parse_host(raw: str) -> Address | str:
    """Return the address that a url's host spells in any form, or its name in lower-case ASCII.

    Raises InvalidInputError for what is neither, such as a zone id or an escaped character.
    """
    host = raw.lower().removesuffix(".")
    if not host.isascii():
        try:
            host = httpx2.URL(scheme="http", host=host).raw_host.decode("ascii").removesuffix(".")
        except httpx2.InvalidURL:
            raise _no_host() from None
    if ":" in host and "%" not in host:
        try:
            return IPv6Address(host)
        except ValueError:
            raise _no_host() from None
    labels = host.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        return _read_numeric(labels)
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _no_host()
    return host


class AllowedHosts:
    """Names, addresses and networks that may be called although they are not public.

    An entry that is none of these is a ConfigurationError.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for entry in entries:
            self._add(entry)

    def check(self, host: Address | str, addresses: Sequence[Address]) -> None:
        """Raise ForbiddenError when one of the addresses that ``host`` leads to is not allowed."""
        for found in addresses:
            if self._permits(host, found):
                continue
            address = _plain(found)
            if isinstance(host, str):
                raise ForbiddenError(
                    "{host} leads to {address}, which is no address of the public internet.",
                    hint="If it is meant, let an administrator add {entry} to RAG_FETCH_HOSTS.",
                    host=host,
                    address=address,
                    entry=address if _is_special(address) else host,
                )
            raise ForbiddenError(
                "{address} is no address of the public internet.",
                hint="If it is meant, let an administrator add {address} to RAG_FETCH_HOSTS.",
                address=address,
            )

    def _add(self, entry: str) -> None:
        text = entry.strip()
        try:
            self._networks.append(ipaddress.ip_network(text.strip("[]"), strict=False))
        except ValueError:
            try:
                host = parse_host(text)
            except InvalidInputError:
                raise ConfigurationError(
                    "“{entry}” among the hosts that may be fetched is no host.",
                    hint="Write names, addresses or networks, such as intranet or 10.0.0.0/8.",
                    entry=entry,
                ) from None
            if isinstance(host, str):
                self._names.add(host)
            else:
                self._networks.append(ipaddress.ip_network(str(host)))

    def _permits(self, host: Address | str, address: Address) -> bool:
        plain = _plain(address)
        if any(plain in network or address in network for network in self._networks):
            return True
        return _is_public(plain) or (host in self._names and not _is_special(plain))


def _read_numeric(labels: Sequence[str]) -> IPv4Address:
    # Like the C library: one to four parts, each decimal, octal (0…) or hexadecimal (0x…).
    if len(labels) > 4 or not all(_NUMERIC.fullmatch(label) for label in labels):
        raise _no_host()
    try:
        return IPv4Address(socket.inet_aton(".".join(labels)))
    except OSError:
        raise _no_host() from None


def _plain(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _is_public(address: Address) -> bool:
    if any(address in network for network in _NOT_PUBLIC) or address.is_multicast:
        return False
    if isinstance(address, IPv4Address):
        return address.is_global
    if address in _NAT64:
        return _is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    if address not in _PUBLIC_V6 or not address.is_global:
        return False
    if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
        return _is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    return True


def _is_special(address: Address) -> bool:
    return any(address in network for network in _SPECIAL)


def _no_host() -> InvalidInputError:
    return InvalidInputError(
        "The host of the address is neither a name nor an address of the internet.",
        hint="Write it like {example}.",
        example="https://example.org/search",
    )
