"""One hop: a request to one checked address, and the redirect that follows from it.

A redirect is a new hop with a look-up and a check of its own; what is secret stays with its origin.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache

import httpcore2
import httpx2

from rag.core.deadline import Deadline
from rag.core.errors import ForbiddenError, InvalidInputError, ProviderError
from rag.providers.http.addresses import Address, AllowedHosts, parse_host
from rag.providers.http.failures import PLAIN_HEADERS, RequestErrors
from rag.providers.http.sockets import CONNECT_S, GuardedBackend, Network, resolve_host

READ_S = 30.0
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Hop:
    """One request; ``host`` is what the address check and the certificate are about."""

    method: str
    url: httpx2.URL
    host: Address | str
    headers: Mapping[str, str]
    content: bytes | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    has_secrets: bool = False

    @property
    def port(self) -> int:
        """Return the port that is called."""
        return self.url.port or _PORTS[self.url.scheme]


def parse_url(url: str | httpx2.URL) -> tuple[httpx2.URL, Address | str]:
    """Return a url in one spelling without its fragment, and the host that it names.

    Raises InvalidInputError for other schemes than http(s), for credentials in the url and for
    what is no url; the message never quotes it.
    """
    try:
        read = httpx2.URL(url)
    except (httpx2.InvalidURL, UnicodeError):
        read = httpx2.URL("")
    port = _PORTS.get(read.scheme, 0) if read.port is None else read.port
    if read.scheme not in _PORTS or not read.host or not 0 < port < 65536:
        raise InvalidInputError(
            "This is no web address that can be called.",
            hint="Write it like {example}; only http and https are called.",
            example="https://example.org/search",
        )
    if read.userinfo:
        raise InvalidInputError(
            "The web address holds a user name or a password.",
            hint="Keep them in a named secret instead.",
        )
    host = parse_host(read.raw_host.decode("ascii"))
    return read.copy_with(host=str(host), fragment=None), host


@contextmanager
def open_hop(
    hop: Hop, *, allowed: AllowedHosts, deadline: Deadline, network: Network
) -> Iterator[httpx2.Response]:
    """Yield the response, whose body is read inside the block; the connection ends with it.

    Raises ForbiddenError for an address that may not be called, CancelledError, and the errors
    of the network as they come: OSError, httpcore2's ProtocolError, httpx2's DecodingError.
    """
    addresses = resolve_host(hop.host, hop.port, network.lookup, deadline)
    allowed.check(hop.host, addresses)
    backend = GuardedBackend(addresses, deadline, network.dial)
    # Merging nothing would still spell the query anew, and break a signature over it.
    url = hop.url.copy_merge_params(dict(hop.params)) if hop.params else hop.url
    sent = httpx2.Request(hop.method, url, headers=_headers(hop), content=hop.content)
    assert isinstance(sent.stream, httpx2.SyncByteStream)
    times = {"connect": CONNECT_S, "read": READ_S, "write": READ_S}
    request = httpcore2.Request(
        hop.method,
        httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=hop.port, target=url.raw_path),
        headers=sent.headers.raw,
        content=sent.stream,
        extensions={"timeout": times},
    )
    tls = (network.tls or _tls_of(os.getpid())) if hop.url.scheme == "https" else None
    connection = httpcore2.HTTPConnection(
        request.url.origin, ssl_context=tls, network_backend=backend
    )
    try:
        with deadline.on_cancel(backend.abort):
            received = connection.handle_request(request)
            assert isinstance(received.stream, Iterable)
            yield httpx2.Response(
                received.status, headers=received.headers, stream=_Body(received.stream)
            )
    finally:
        connection.close()
        backend.close()


def next_hop(hop: Hop, location: str, status: int, callee: RequestErrors) -> Hop:
    """Return where a redirect leads; raise ForbiddenError rather than take secrets along.

    303 becomes GET, as do 301 and 302 after POST (RFC 9110, 15.4). To another origin go only
    headers that tell nothing, and neither a body nor, out of https into http, anything secret.
    """
    try:
        url, host = parse_url(hop.url.join(location))
    except (httpx2.InvalidURL, UnicodeError):
        raise ProviderError(
            "{host} redirects to something that is no web address.",
            hint="Check the address.",
            host=callee.host,
        ) from None
    is_get = status == 303 or (status in (301, 302) and hop.method == "POST")
    moved = replace(hop, url=url, host=host, params={})
    if is_get:
        kept = {name: one for name, one in hop.headers.items() if name.lower() != "content-type"}
        moved = replace(moved, method="GET", content=None, headers=kept)
    if _is_same_origin(hop, moved):
        return moved
    if hop.has_secrets and hop.url.scheme == "https" and url.scheme == "http":
        raise ForbiddenError(
            "{host} redirects from https to http, where others could read along.",
            hint="Use the address where the redirect ends.",
            host=callee.host,
        )
    if moved.content is not None:
        raise ForbiddenError(
            "{host} redirects the request and its body to another server, {other}.",
            hint="Use that address if it is meant.",
            host=callee.host,
            other=str(host),
        )
    plain = {name: one for name, one in moved.headers.items() if name.lower() in PLAIN_HEADERS}
    return replace(moved, headers=plain)


def _is_same_origin(old: Hop, new: Hop) -> bool:
    if old.host != new.host:
        return False
    before, after = (old.url.scheme, old.port), (new.url.scheme, new.port)
    return before == after or (before, after) == (("http", 80), ("https", 443))


def _headers(hop: Hop) -> list[tuple[bytes, bytes]]:
    sent = {
        "User-Agent": "Citable",
        "Accept": "*/*",
        "Accept-Encoding": "gzip, deflate",
        "Connection": "close",
    }
    names = {name.lower() for name in hop.headers}
    own = {name: value for name, value in sent.items() if name.lower() not in names}
    return [(name.encode(), value.encode()) for name, value in {**own, **hop.headers}.items()]


@lru_cache(maxsize=2)
def _tls_of(pid: int) -> ssl.SSLContext:
    return httpx2.create_ssl_context()


class _Body(httpx2.SyncByteStream):
    def __init__(self, stream: Iterable[bytes]) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream
