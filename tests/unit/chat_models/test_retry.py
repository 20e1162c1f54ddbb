"""The one retry layer: how often, how long, and whose wish counts."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from rag.core.errors import CancelledError, ProviderError
from rag.providers.remote.retry import (
    Failure,
    RetryPolicy,
    await_with_retry,
    call_with_retry,
    parse_retry_after,
)

FAST = RetryPolicy(max_attempts=4, first_wait_s=0.001, max_wait_s=0.002, deadline_s=5.0)
BUSY = ProviderError("busy")


def scripted(*outcomes: object) -> tuple[Callable[[float], object], list[float]]:
    """Return an attempt that gives these outcomes in turn, and the seconds it was left."""
    remaining = list(outcomes)
    left: list[float] = []

    def attempt(left_s: float) -> object:
        left.append(left_s)
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    return attempt, left


def test_a_result_at_once_is_one_attempt() -> None:
    attempt, left = scripted("fine")
    assert call_with_retry(FAST, attempt) == "fine"
    assert len(left) == 1


def test_a_transient_failure_is_tried_again() -> None:
    attempt, left = scripted(Failure(BUSY, True), Failure(BUSY, True), "fine")
    assert call_with_retry(FAST, attempt) == "fine"
    assert len(left) == 3


def test_a_lasting_failure_is_raised_at_once() -> None:
    attempt, left = scripted(Failure(BUSY, False), "fine")
    with pytest.raises(ProviderError, match="busy"):
        call_with_retry(FAST, attempt)
    assert len(left) == 1


def test_attempts_are_counted() -> None:
    attempt, left = scripted(Failure(BUSY, True))
    with pytest.raises(ProviderError, match="busy"):
        call_with_retry(FAST, attempt)
    assert len(left) == 4


def test_the_deadline_ends_it_before_the_attempts_do() -> None:
    attempt, left = scripted(Failure(BUSY, True))
    policy = RetryPolicy(max_attempts=1000, first_wait_s=0.02, max_wait_s=0.02, deadline_s=0.15)
    started = time.monotonic()
    with pytest.raises(ProviderError):
        call_with_retry(policy, attempt)
    assert time.monotonic() - started <= 0.5
    assert 3 <= len(left) < 20
    assert left == sorted(left, reverse=True)
    assert all(0 < seconds <= 0.15 for seconds in left)


def test_the_server_s_wish_counts_over_the_own_wait() -> None:
    attempt, _ = scripted(Failure(BUSY, True, retry_after_s=0.08), "fine")
    started = time.monotonic()
    assert call_with_retry(FAST, attempt) == "fine"
    assert time.monotonic() - started >= 0.08


def test_a_wish_beyond_the_deadline_is_not_waited_for() -> None:
    attempt, left = scripted(Failure(BUSY, True, retry_after_s=3600.0), "fine")
    started = time.monotonic()
    with pytest.raises(ProviderError):
        call_with_retry(FAST, attempt)
    assert time.monotonic() - started < 0.5
    assert len(left) == 1


def test_a_wish_in_the_past_means_now() -> None:
    attempt, _ = scripted(Failure(BUSY, True, retry_after_s=-5.0), "fine")
    slow = RetryPolicy(first_wait_s=60.0, deadline_s=1.0)
    assert call_with_retry(slow, attempt) == "fine"


def test_waits_double_up_to_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("rag.providers.remote.retry.time.sleep", waits.append)
    attempt, _ = scripted(Failure(BUSY, True))
    with pytest.raises(ProviderError):
        call_with_retry(RetryPolicy(6, first_wait_s=1.0, max_wait_s=4.0), attempt)
    assert len(waits) == 5
    for wait_s, full in zip(waits, [1.0, 2.0, 4.0, 4.0, 4.0], strict=True):
        assert full / 2 <= wait_s <= full


def test_the_error_carries_no_other_error() -> None:
    attempt, _ = scripted(Failure(ProviderError("clean"), False))
    with pytest.raises(ProviderError) as caught:
        call_with_retry(FAST, attempt)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


async def test_the_async_form_keeps_the_same_rules() -> None:
    attempt, left = scripted(Failure(BUSY, True), "fine")

    async def tried(left_s: float) -> object:
        return attempt(left_s)

    assert await await_with_retry(FAST, tried) == "fine"
    assert len(left) == 2
    lasting, left = scripted(Failure(BUSY, False))

    async def tried_once(left_s: float) -> object:
        return lasting(left_s)

    with pytest.raises(ProviderError):
        await await_with_retry(FAST, tried_once)
    assert len(left) == 1


def test_who_waits_may_be_woken() -> None:
    attempt, left = scripted(Failure(BUSY, True, retry_after_s=2.0), "never")
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        raise CancelledError("The call was cancelled.")

    with pytest.raises(CancelledError):
        call_with_retry(FAST, attempt, wait=wait)
    assert (waits, len(left)) == ([2.0], 1)


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("17", 17.0),
        ("0.15", 0.15),
        ("", None),
        ("soon", None),
        ("Thu, 01 Jan 1970 00:01:40 GMT", -900.0),
        ("Thu, 99 Jan 1970 00:00:00 GMT", None),
    ],
)
def test_a_header_s_wish_is_a_number_or_a_date(
    monkeypatch: pytest.MonkeyPatch, value: str, wait_s: float | None
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    assert parse_retry_after(value) == wait_s
