"""What a process makes once: under threads, after errors, after a fork; work on a pool."""

from __future__ import annotations

import os
import threading
import time

import pytest

from rag.providers.local_models import Once, TextThreads
from tests.contracts import at_once


def test_it_makes_the_thing_once_however_many_threads_ask() -> None:
    made: list[int] = []

    def make() -> object:
        time.sleep(0.02)
        made.append(1)
        return object()

    once = Once(make)
    found = at_once(lambda _: once.get(), range(8), n_threads=8)
    assert len(made) == 1
    assert len(set(map(id, found))) == 1


def test_nothing_is_made_before_it_is_asked_for() -> None:
    made: list[int] = []
    Once(lambda: made.append(1))
    assert made == []


def test_none_counts_as_made() -> None:
    made: list[int] = []
    once = Once(lambda: made.append(1))
    assert (once.get(), once.get()) == (None, None)
    assert made == [1]


def test_a_failed_recipe_is_tried_again() -> None:
    answers = iter([ValueError("not yet"), "done"])

    def make() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    once = Once(make)
    with pytest.raises(ValueError, match="not yet"):
        once.get()
    assert once.get() == "done"


def test_a_forked_child_is_not_kept_waiting_by_a_thread_of_its_parent() -> None:
    entered, leave = threading.Event(), threading.Event()

    def make() -> str:
        entered.set()
        leave.wait(10)
        return "made"

    once = Once(make)
    maker = threading.Thread(target=once.get)
    maker.start()
    entered.wait(10)
    pid = os.fork()
    if pid == 0:
        leave.set()
        os._exit(0 if once.get() == "made" else 1)
    deadline = time.monotonic() + 10
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    leave.set()
    maker.join()
    if ended == (0, 0):
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert ended == (pid, 0)


def test_results_come_in_the_order_of_the_texts() -> None:
    def slow_when_long(text: str) -> int:
        time.sleep(0.001 * (5 - len(text)))
        return len(text)

    assert TextThreads(3).map(slow_when_long, ["a", "bb", "ccc", "dddd"]) == [1, 2, 3, 4]


def test_several_threads_work_and_one_does_not_leave_the_caller() -> None:
    def name(_: str) -> str:
        time.sleep(0.01)
        return threading.current_thread().name

    assert len(set(TextThreads(3).map(name, ["x"] * 12))) > 1
    assert set(TextThreads(1).map(name, ["x"] * 3)) == {threading.current_thread().name}


def test_the_first_error_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        TextThreads(2).map(lambda text: 1 // len(text), ["a", "", "b"])


def test_a_pool_works_again_in_a_forked_child() -> None:
    threads = TextThreads(2)
    assert threads.map(len, ["a", "bb"]) == [1, 2]
    pid = os.fork()
    if pid == 0:
        os._exit(0 if threads.map(len, ["a", "bb", "ccc"]) == [1, 2, 3] else 1)
    assert os.waitpid(pid, 0) == (pid, 0)


def test_without_a_size_there_is_a_thread_a_core() -> None:
    assert TextThreads().size == len(os.sched_getaffinity(0))
    assert TextThreads(5).size == 5
