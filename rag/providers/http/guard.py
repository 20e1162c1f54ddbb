"""Guarded fetch: one request with its redirects, bounded in time and size.

No proxy of the environment is used: it would resolve names itself, past the check. Any port may be
called on the public internet; private addresses only when they are listed.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import BinaryIO

import httpcore2
import httpx2

from rag.core.deadline import Deadline
from rag.core.errors import (
    ConfigurationError,
    InvalidInputError,
    LimitError,
    ProviderError,
    UnknownNameError,
)
from rag.core.sources import FetchReply, FetchRequest
from rag.providers.http.addresses import AllowedHosts, parse_host
from rag.providers.http.failures import PLAIN_HEADERS, RequestErrors
from rag.providers.http.hop import REDIRECTS, Hop, next_hop, open_hop, parse_url
from rag.providers.http.sockets import Network, resolve_host
from rag.providers.remote.retry import Failure, RetryPolicy, call_with_retry

MAX_REDIRECTS = 5
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "PROPFIND")
_EXCERPT_BYTES = 4096
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# These say where a message ends and whom it is for; a caller who sets them could smuggle another.
_OWN_HEADERS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade"}
    | {"keep-alive", "expect", "accept-encoding", "proxy-authorization", "proxy-connection"}
)
_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})


class GuardedHttp:
    """Calls to public addresses and to ``allowed`` private ones; tests replace its network."""

    def __init__(self, allowed: Sequence[str], network: Network | None = None) -> None:
        self._allowed = allowed
        self._network = network or Network()

    def fetch(self, request: FetchRequest, *, deadline: Deadline) -> FetchReply:
        """Return the reply with its whole body; raise as ``download`` does."""
        sink = BytesIO()
        return replace(self.download(request, sink, deadline=deadline), body=sink.getvalue())

    def download(self, request: FetchRequest, sink: BinaryIO, *, deadline: Deadline) -> FetchReply:
        """Write the body to ``sink``, in flat memory, and return the reply with an empty ``body``.

        ``sink`` can seek and truncate: a try that broke off is undone. Raises InvalidInputError or
        ForbiddenError for what is never called, LimitError for a body over ``max_bytes`` after
        decompression, ProviderTimeoutError at the deadline, CancelledError, and ProviderError for
        a status other than 2xx, TLS, DNS and connections, after retries.
        """
        first = _first_hop(request)
        allowed = AllowedHosts((*self._allowed, *request.hosts))
        start = sink.tell()
        policy = RetryPolicy(max_attempts=request.retries + 1, deadline_s=deadline.remaining_s)

        def attempt(left_s: float) -> FetchReply | Failure:
            sink.seek(start)
            sink.truncate()
            return self._follow(first, request, sink, allowed, deadline)

        deadline.check()
        return call_with_retry(policy, attempt, wait=lambda seconds: _wait(seconds, deadline))

    def addresses(self, host: str, *, deadline: Deadline) -> list[str]:
        """Return the addresses of a host, each of which may be called; raise ForbiddenError."""
        name = parse_host(host)
        try:
            found = resolve_host(name, 0, self._network.lookup, deadline)
        except OSError as error:
            raise RequestErrors(host).failed(error, deadline).error from None
        AllowedHosts(self._allowed).check(name, found)
        return [str(address) for address in found]

    def _follow(
        self,
        hop: Hop,
        request: FetchRequest,
        sink: BinaryIO,
        allowed: AllowedHosts,
        deadline: Deadline,
    ) -> FetchReply | Failure:
        for _ in range(MAX_REDIRECTS + 1):
            callee = RequestErrors.of(hop.url.netloc.decode("ascii"), request)
            try:
                with open_hop(
                    hop, allowed=allowed, deadline=deadline, network=self._network
                ) as response:
                    location = response.headers.get("location")
                    if response.status_code in REDIRECTS and location:
                        hop = next_hop(hop, location, response.status_code, callee)
                        continue
                    reply = _read(hop, response, request, sink, callee)
                    # A body that ends with its connection looks whole when the call is cancelled.
                    if not deadline.is_cancelled:
                        return reply
                    deadline.check()
            except (OSError, httpcore2.ProtocolError, httpx2.DecodingError) as error:
                failure = callee.failed(error, deadline)
            if deadline.is_cancelled:
                deadline.check()
            return failure
        raise ProviderError(
            "{host} redirects more than {limit} times.",
            hint="Check the address.",
            host=callee.host,
            limit=MAX_REDIRECTS,
        )


def _read(
    hop: Hop,
    response: httpx2.Response,
    request: FetchRequest,
    sink: BinaryIO,
    callee: RequestErrors,
) -> FetchReply | Failure:
    headers = {name.lower(): value for name, value in response.headers.items()}
    codings = {one.strip().lower() for one in headers.get("content-encoding", "").split(",")}
    if not codings <= _ENCODINGS:
        raise ProviderError(
            "{host} packs its answer in a way that was not asked for ({coding}).",
            hint="Check the address.",
            host=callee.host,
            coding=callee.clean(", ".join(codings - _ENCODINGS)),
        )
    status = response.status_code
    if not 200 <= status < 300 and status not in request.statuses:
        return callee.refused(status, _excerpt(response), headers)
    length = headers.get("content-length", "0")
    n_bytes = int(length) if hop.method != "HEAD" and length.isdigit() else 0
    if n_bytes > request.max_bytes and codings <= {"", "identity"}:
        raise _too_large(callee, request)
    n_bytes = 0
    for part in response.iter_bytes():
        n_bytes += len(part)
        if n_bytes > request.max_bytes:
            raise _too_large(callee, request)
        try:
            sink.write(part)
        except OSError as error:
            raise ConfigurationError(
                "What {host} sends cannot be stored: {reason}.",
                hint="Check the free space and the rights of the folder.",
                host=callee.host,
                reason=error.strerror,
            ) from error
    return FetchReply(status, headers, b"", str(hop.url))


def _first_hop(request: FetchRequest) -> Hop:
    if request.method not in METHODS:
        raise UnknownNameError("HTTP method", request.method, METHODS)
    for name, value in request.headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise InvalidInputError(
                "The header “{name}” cannot be set.", hint="Remove it.", name=name
            )
        if not all(character.isprintable() or character == "\t" for character in value):
            raise InvalidInputError(
                "The value of the header “{name}” holds a line break or a control character.",
                hint="Headers are one line of text.",
                name=name,
            )
    for name, value in request.params.items():
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            raise InvalidInputError(
                "The parameter “{name}” holds half a character.",
                hint="Enter it again.",
                name=name.encode(errors="replace").decode(),
            ) from None
    url, host = parse_url(request.url)
    has_secrets = bool(url.query or request.params or request.json is not None) or any(
        name.lower() not in PLAIN_HEADERS for name in request.headers
    )
    headers: Mapping[str, str] = request.headers
    content: bytes | None = None
    if request.body:
        content = request.body
    if request.json is not None:
        content = _json_bytes(request)
        if "content-type" not in {name.lower() for name in headers}:
            headers = {**headers, "Content-Type": "application/json"}
    return Hop(request.method, url, host, headers, content, request.params, has_secrets)


def _json_bytes(request: FetchRequest) -> bytes:
    try:
        text = json.dumps(request.json, ensure_ascii=False, allow_nan=False)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            "The body of the request cannot be written as JSON: {reason}.",
            hint="JSON holds texts, finite numbers, lists and objects.",
            reason=type(error).__name__,
        ) from None


def _excerpt(response: httpx2.Response) -> str:
    found = b""
    try:
        for part in response.iter_bytes():
            found += part[:_EXCERPT_BYTES]
            if len(found) >= _EXCERPT_BYTES:
                break
    except (OSError, httpcore2.ProtocolError, httpx2.DecodingError):
        # The status is known and says more than how its explanation was lost.
        pass
    return found[:_EXCERPT_BYTES].decode("utf-8", "replace")


def _too_large(callee: RequestErrors, request: FetchRequest) -> LimitError:
    return LimitError(
        "What {host} sends is larger than {limit} bytes.",
        hint="Ask for less, or raise the limit (max_bytes).",
        host=callee.host,
        limit=f"{request.max_bytes:,}",
    )


def _wait(seconds: float, deadline: Deadline) -> None:
    woken = threading.Event()
    with deadline.on_cancel(woken.set):
        woken.wait(seconds)
    deadline.check()
