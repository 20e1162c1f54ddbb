"""What is told to whoever counts and traces; what is on whose account; tokens that are told."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from project.apps import is_long_running
from rag.core import metrics
from rag.core.access import Scope
from rag.core.request_context import (
    RequestContext,
    UsageAccount,
    current_account,
    current_request,
    set_account,
    set_request,
    use_account,
)
from rag.core.token_counter import TokenCounter, counting_tokens, current_token_counter


class Listener:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def count(self, name: str, n: float, labels: Mapping[str, str]) -> None:
        self.told.append((name, n, dict(labels)))

    def time(self, name: str, seconds: float, labels: Mapping[str, str]) -> None:
        self.told.append((name, seconds, dict(labels)))

    def span(self, name: str, facts: Mapping[str, Any], is_current: bool) -> Any:
        self.told.append(("begin", name, dict(facts), is_current))
        return lambda more: self.told.append(("end", name, dict(more)))


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    metrics.LISTENERS.append(made)
    yield made
    metrics.LISTENERS.remove(made)


def test_counts_times_and_spans_reach_the_listener(listener: Listener) -> None:
    metrics.count("cache", event="hits")
    metrics.observe("step", 0.5, step="search")
    with metrics.span("search", mode="hybrid") as span:
        span.facts["hits"] = 3
    assert listener.told == [
        ("cache", 1, {"event": "hits"}),
        ("step", 0.5, {"step": "search"}),
        ("begin", "search", {"mode": "hybrid"}, True),
        ("end", "search", {"mode": "hybrid", "hits": 3}),
    ]


def test_a_span_tells_the_kind_of_an_error_and_not_its_text(listener: Listener) -> None:
    with pytest.raises(ValueError, match="secret"), metrics.span("x"):
        raise ValueError("secret words")
    assert listener.told[-1] == ("end", "x", {"error": "ValueError"})


def test_a_span_ends_once_and_as_a_decorator_is_made_anew(listener: Listener) -> None:
    span = metrics.start_span("model", model="m")
    assert span.end() >= 0 and span.end() >= 0
    assert [told[0] for told in listener.told] == ["begin", "end"]

    @metrics.span("work")
    def work() -> int:
        return 5

    assert [work(), work()] == [5, 5]
    assert len(listener.told) == 6


def test_without_listeners_nothing_happens() -> None:
    with metrics.span("x") as span:
        metrics.count("y")
    assert span.end() >= 0


def test_an_account_is_changed_for_a_while() -> None:
    scope = Scope(user_id=3, key_id=8)
    with use_account(scope, kind="ask", run="r") as account:
        assert account == current_account() == UsageAccount(3, 8, kind="ask", run="r")
        with use_account(kind="rerank"):
            assert current_account() == UsageAccount(3, 8, kind="rerank", run="r")
        assert current_account().kind == "ask"
    assert current_account() == UsageAccount()


def test_a_context_of_its_own_has_an_account_of_its_own() -> None:
    context = contextvars.Context()
    context.run(set_account, Scope(user_id=3), agent="desk", is_apart=True)
    assert context.run(current_account) == UsageAccount(3, agent="desk", is_apart=True)
    assert current_account() == UsageAccount()


def test_the_request_pays_for_what_nobody_else_does() -> None:
    def work() -> None:
        request = set_request(RequestContext("api"))
        # Recognised later, in another copy of the context.
        contextvars.copy_context().run(lambda: setattr(current_request(), "user_id", 4))
        assert (request.user_id, current_account().user_id) == (4, 4)
        with use_account(Scope(user_id=5)):
            assert current_account().user_id == 5

    contextvars.copy_context().run(work)
    assert current_request().edge == ""


def test_a_key_on_a_scope_is_no_right() -> None:
    assert Scope(user_id=1) == Scope(user_id=1, key_id=2)
    assert Scope(user_id=1).fingerprint == Scope(user_id=1, key_id=2).fingerprint


def test_tokens_are_added_up_from_any_thread() -> None:
    with counting_tokens() as tally:
        found = current_token_counter()
        threads = [threading.Thread(target=found.add, args=(n,)) for n in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for wrong in (None, "7", True, -1, 1.5):
            found.add(wrong)
        assert tally.tokens == sum(range(50))
    current_token_counter().add(5)
    assert TokenCounter().tokens is None and tally.tokens == sum(range(50))


@pytest.mark.parametrize(
    ("words", "is_server"),
    [
        (["/srv/project/web_server.py", "--port", "8000"], True),
        (["/venv/bin/uvicorn", "project.asgi:application"], True),
        (["/lib/uvicorn/__main__.py", "project.asgi:application"], True),
        (["manage.py", "procrastinate", "worker"], True),
        (["./manage.py", "runserver"], True),
        (["manage.py", "rag_reindex"], False),
        (["pytest"], False),
        (["manage.py"], False),
        ([], False),
    ],
)
def test_only_processes_that_stay_count(words: list[str], is_server: bool) -> None:
    assert is_long_running(words) is is_server
