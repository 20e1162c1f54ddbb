"""HTTP failures as our errors, without secrets.

Addresses are named by host and port only: paths and parameters carry keys.
"""

from __future__ import annotations

import base64
import binascii
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

from rag.core.deadline import Deadline
from rag.core.errors import ProviderError, ProviderTimeoutError
from rag.core.sources import FetchRequest
from rag.providers.remote.retry import Failure, parse_retry_after

# What tells nothing about the caller: these headers go along to another origin, and are no secret.
PLAIN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
TRANSIENT = frozenset({408, 425, 429})
PERMANENT = frozenset({501, 505})
MAX_EXCERPT_CHARS = 200
# A shorter value would blot out half of the sentence that happens to contain it.
_MIN_SECRET_CHARS = 4


@dataclass(frozen=True, slots=True)
class RequestErrors:
    """Who is called as errors name it, and what must never be said about the call."""

    host: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, host: str, request: FetchRequest) -> RequestErrors:
        """Return the callee of a request, whose headers and parameters are secrets."""
        found = {one for one in _secrets(request) if len(one) >= _MIN_SECRET_CHARS}
        return cls(host, tuple(sorted(found, key=len, reverse=True)))

    def failed(self, error: Exception, deadline: Deadline) -> Failure:
        """Return the failure that an error of the network, of TLS or of HTTP stands for."""
        if isinstance(error, TimeoutError):
            return self._timed_out(deadline)
        if isinstance(error, socket.gaierror):
            return Failure(
                ProviderError(
                    "The name {host} cannot be resolved: {reason}.",
                    hint="Check the spelling and the network.",
                    host=self.host,
                    reason=error.strerror,
                ),
                is_transient=error.errno == socket.EAI_AGAIN,
            )
        if isinstance(error, ssl.SSLError):
            reason = getattr(error, "verify_message", "") or error.reason or "the connection ended"
            return Failure(
                ProviderError(
                    "There is no safe connection (TLS) to {host}: {reason}.",
                    hint="Check the address, and the certificate of the server.",
                    host=self.host,
                    reason=self.clean(reason).rstrip("."),
                ),
                # A server that breaks off is no matter of certificates.
                is_transient=isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)),
            )
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Failure(
            ProviderError(
                "The connection to {host} failed: {reason}.",
                hint="Try again, or check the address.",
                host=self.host,
                reason=self.clean(reason).rstrip("."),
            ),
            is_transient=True,
        )

    def refused(self, status: int, reason: str, headers: Mapping[str, str]) -> Failure:
        """Return the failure of a status other than 2xx; ``reason`` is how the body begins."""
        error = ProviderError(
            "{host} answered with HTTP {status}: {reason}",
            hint=_advice(status),
            host=self.host,
            status=status,
            reason=self.clean(reason),
        )
        is_transient = status in TRANSIENT or (status >= 500 and status not in PERMANENT)
        return Failure(error, is_transient, parse_retry_after(headers.get("retry-after", "")))

    def clean(self, text: str) -> str:
        """Return a server's words without the call's secrets, on one line, short."""
        words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        if words.startswith("<"):
            return "a web page"
        for secret in self.secrets:
            words = words.replace(secret, "***")
        return words[:MAX_EXCERPT_CHARS] or "no reason given"

    def _timed_out(self, deadline: Deadline) -> Failure:
        is_over = deadline.remaining_s < 0.05
        if is_over:
            error = ProviderTimeoutError(
                "{host} did not answer within {timeout_s} s.",
                hint="Try again, or allow more time.",
                host=self.host,
                timeout_s=f"{deadline.timeout_s:.3g}",
            )
        else:
            error = ProviderTimeoutError(
                "{host} does not answer.", hint="Try again, or check the address.", host=self.host
            )
        return Failure(error, is_transient=not is_over)


def _secrets(request: FetchRequest) -> Iterator[str]:
    values = [value for name, value in request.headers.items() if name.lower() not in PLAIN_HEADERS]
    for value in tuple(values):
        kind, _, rest = value.partition(" ")
        values.append(rest)
        if kind.lower() == "basic":
            try:
                pair = base64.b64decode(rest, validate=True).decode()
            except (binascii.Error, ValueError):
                continue
            values += [pair, pair.partition(":")[2]]
    values += request.params.values()
    values += [value for _, value in parse_qsl(urlsplit(request.url).query)]
    # Servers give back what they were sent in their own spelling, also in the wrong encoding.
    for value in (*values, *(value.encode().decode("latin-1") for value in values)):
        yield from (value, quote(value), quote(value, safe=""), quote_plus(value))
        yield json.dumps(value)[1:-1]


def _advice(status: int) -> str:
    if status in (401, 403):
        return "Check the secret and the rights that belong to it."
    if status in (404, 405, 410):
        return "Check the address and the method."
    if status == 429 or status >= 500:
        return "Try again later."
    return "Check the parameters."
