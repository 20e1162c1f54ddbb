"""Rate limits: requests a minute by key, user or address."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass

from rag.conf import conf
from rag.core.errors import LimitError
from rag.providers.postgres.db.rate_windows import count_key_request, count_subject_request


@dataclass(frozen=True, slots=True)
class RateLimit:
    """``limit`` requests a window; ``used`` counts this one, ``reset_s`` is the window's rest."""

    limit: int
    used: int
    reset_s: int

    @property
    def remaining(self) -> int:
        """Return how many more requests will be answered in this window."""
        return max(0, self.limit - self.used)

    @property
    def is_exceeded(self) -> bool:
        """Return whether this request is one too many."""
        return self.used > self.limit

    def check(self) -> None:
        """Raise LimitError when this request is one too many."""
        if self.is_exceeded:
            raise LimitError(
                "More than {limit} requests came within a minute.",
                hint="Try again in {retry_after_s} seconds.",
                limit=self.limit,
                retry_after_s=self.reset_s,
            )


def count_key_call(*, key_id: int, limit: int) -> RateLimit:
    """Count a request with a key."""
    return _quota(limit, count_key_request(key_id))


def count_user_call(*, user_id: int) -> RateLimit:
    """Count a request of somebody who is signed in and calls without a key."""
    return _quota(conf().api_requests_per_minute, count_subject_request(f"user:{user_id}"))


def count_failed_call(*, address: str) -> RateLimit:
    """Count a request with a wrong key. Only failures are counted and refused by address.

    Whoever has a right key is not shut out by a neighbour behind the same address, and keys of
    256 random bits cannot be guessed; the limit is there against load and noise.
    """
    return _quota(
        conf().api_failures_per_minute, count_subject_request(f"failed:{_network(address)}")
    )


def count_visitor_call(*, widget_id: int, address: str, limit: int) -> RateLimit:
    """Count a request of somebody without an account, by the widget and their network."""
    return _quota(limit, count_subject_request(f"widget:{widget_id}:{_network(address)}"))


def _quota(limit: int, counted: tuple[int, float]) -> RateLimit:
    return RateLimit(limit, counted[0], max(1, math.ceil(counted[1])))


def _network(address: str) -> str:
    """Return an IPv4 address, or the /64 of an IPv6 address: one customer has all of it."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
