"""Retry policy of remote calls: attempts, backoff, Retry-After, deadline; callers may give figures.

The SDKs' own retries are switched off: they ignore the deadline, one of them Retry-After too.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TypeVar

from rag.core.errors import RAGError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a call is tried; ``deadline_s`` bounds attempts and waits together."""

    max_attempts: int = 4
    first_wait_s: float = 0.5
    max_wait_s: float = 20.0
    deadline_s: float = 180.0

    def within(self, timeout_s: float) -> RetryPolicy:
        """Return the policy whose tries end within ``timeout_s``, too."""
        return replace(self, deadline_s=min(self.deadline_s, timeout_s))


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt's outcome other than a result: a value, so that no vendor's exception, which may
    quote a key, hangs on the error as its cause. ``retry_after_s`` is the server's own wish."""

    error: RAGError
    is_transient: bool = False
    retry_after_s: float | None = None


def call_with_retry(
    policy: RetryPolicy,
    attempt: Callable[[float], T | Failure],
    *,
    wait: Callable[[float], object] | None = None,
) -> T:
    """Return the first result of ``attempt``, which is given the seconds left; raise its error.

    ``wait`` sleeps between attempts and may raise, so that a cancelled call does not sleep on.
    """
    budget = _Budget(policy)
    while True:
        outcome = attempt(budget.left_s())
        if not isinstance(outcome, Failure):
            return outcome
        (wait or time.sleep)(budget.wait_after(outcome))


async def await_with_retry(
    policy: RetryPolicy, attempt: Callable[[float], Awaitable[T | Failure]]
) -> T:
    """Return the first result of ``attempt``, which is given the seconds left; raise its error."""
    budget = _Budget(policy)
    while True:
        outcome = await attempt(budget.left_s())
        if not isinstance(outcome, Failure):
            return outcome
        await asyncio.sleep(budget.wait_after(outcome))


def parse_retry_after(value: str) -> float | None:
    """Return the seconds of a Retry-After header, a number or a date (RFC 9110 section 10.2.3)."""
    with contextlib.suppress(ValueError):
        return float(value)
    with contextlib.suppress(ValueError, OverflowError):
        return parsedate_to_datetime(value).timestamp() - time.time()
    return None


class _Budget:
    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._end = time.monotonic() + policy.deadline_s
        self._n_failed = 0

    def left_s(self) -> float:
        # Never 0: to the HTTP libraries that means no limit.
        return max(0.001, self._end - time.monotonic())

    def wait_after(self, failure: Failure) -> float:
        self._n_failed += 1
        wait_s = self._wanted_s(failure)
        is_last = self._n_failed >= self._policy.max_attempts
        # With next to no time left, a try would only hide this failure behind a timeout.
        latest = self._end - self._policy.deadline_s / 10
        if not failure.is_transient or is_last or time.monotonic() + wait_s >= latest:
            raise failure.error
        return wait_s

    def _wanted_s(self, failure: Failure) -> float:
        if failure.retry_after_s is not None:
            return max(0.0, failure.retry_after_s)
        doubled = self._policy.first_wait_s * 2.0 ** min(self._n_failed - 1, 30)
        # Spread, or all workers that failed together come back together.
        return min(doubled, self._policy.max_wait_s) * random.uniform(0.5, 1.0)
