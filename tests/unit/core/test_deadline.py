"""Deadlines: what is left, who is woken, and which error says why a call ended."""

from __future__ import annotations

import threading
import time

import pytest

from rag.core.deadline import Deadline
from rag.core.errors import CancelledError, ProviderTimeoutError


def test_what_is_left_shrinks_to_zero_and_not_below() -> None:
    deadline = Deadline(0.05)
    assert 0 < deadline.remaining_s <= 0.05
    deadline.check()
    time.sleep(0.06)
    assert deadline.remaining_s == 0.0
    with pytest.raises(ProviderTimeoutError, match=r"no answer within 0\.05 s"):
        deadline.check()


def test_a_cancelled_call_says_so_even_when_its_time_is_over() -> None:
    for deadline in (Deadline(5), Deadline(0)):
        deadline.cancel()
        assert deadline.is_cancelled
        with pytest.raises(CancelledError):
            deadline.check()


def test_cancelling_wakes_all_who_wait_once() -> None:
    deadline, woken = Deadline(5), []
    with (
        deadline.on_cancel(lambda: woken.append("a")),
        deadline.on_cancel(lambda: woken.append("b")),
    ):
        deadline.cancel()
        deadline.cancel()
    assert woken == ["a", "b"]


def test_who_has_left_is_not_woken() -> None:
    deadline, woken = Deadline(5), []
    with deadline.on_cancel(lambda: woken.append("a")):
        pass
    deadline.cancel()
    assert woken == []


def test_a_block_after_the_cancelling_does_not_begin() -> None:
    deadline = Deadline(5)
    deadline.cancel()
    with pytest.raises(CancelledError), deadline.on_cancel(lambda: None):
        raise AssertionError("the block began")


def test_the_block_of_an_error_is_left_too() -> None:
    deadline, woken = Deadline(5), []
    with pytest.raises(ValueError, match="x"), deadline.on_cancel(lambda: woken.append("a")):
        raise ValueError("x")
    deadline.cancel()
    assert woken == []


def test_a_thread_that_waits_is_woken_by_another() -> None:
    deadline, event, ended = Deadline(30), threading.Event(), []

    def wait() -> None:
        with deadline.on_cancel(event.set):
            event.wait(deadline.remaining_s)
        ended.append(time.monotonic())

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    start = time.monotonic()
    deadline.cancel()
    thread.join(5)
    assert ended and ended[0] - start < 1


def test_threads_that_come_and_go_leave_nothing_behind() -> None:
    deadline = Deadline(30)

    def come_and_go() -> None:
        for _ in range(200):
            with deadline.on_cancel(lambda: None):
                pass

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert deadline._wakers == []
