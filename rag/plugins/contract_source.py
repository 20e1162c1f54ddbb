"""Contract suite of data sources: tests for pytest, inherited by one subclass per source.

A subclass named ``Test…`` names the plugin and answers a few hooks; see ``SourceContract``.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from unittest import SkipTest

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import (
    CancelledError,
    ConfigurationError,
    ForbiddenError,
    NotFoundError,
    ProviderTimeoutError,
    RAGError,
    UnknownNameError,
)
from rag.core.hits import Hit
from rag.core.sources import SourcePorts, SourceQuery, SourceResult
from rag.plugins.contract_plugin import PluginContract, odd_texts


@dataclass(frozen=True, slots=True)
class Ask:
    """One call of the source: what is asked, with which options and values, by whom.

    ``options`` None are the subclass's ``options``; ``scope`` None is the subclass's ``scope()``.
    """

    text: str
    options: Mapping[str, Any] | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    scope: Scope | None = None


class LentPorts:
    """Ports for a source that needs none of the house but its secrets."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets

    def secret(self, name: str, *, url: str = "") -> str:
        """Return a secret of the test."""
        if name not in self._secrets:
            raise UnknownNameError("secret", name, self._secrets)
        return self._secrets[name]

    def search(self, query: str, **_: Any) -> Any:
        """Refuse: a source that searches our stores overrides ``ports()``."""
        raise ConfigurationError("This test lends no search.", hint="Override ports().")

    def embed_query(self, text: str, *, model: str = "") -> Any:
        """Refuse: a source that needs vectors overrides ``ports()``."""
        raise ConfigurationError("This test lends no model.", hint="Override ports().")

    def answer(self, request: Any, *, scope: Any, deadline: Deadline) -> Any:
        """Refuse: a source that asks stores of file search overrides ``ports()``."""
        raise ConfigurationError("This test lends no answers.", hint="Override ports().")

    def fetch(self, request: Any, *, deadline: Deadline) -> Any:
        """Refuse: a source that calls addresses overrides ``ports()``."""
        raise ConfigurationError("This test lends no network.", hint="Override ports().")


class Call(threading.Thread):
    """A call in a thread of its own, which a test can wait for no longer than it wants."""

    def __init__(self, work: Callable[[], SourceResult], *, leave: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work, self._leave = work, leave
        self.result = SourceResult()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Make the call; what it raises is kept, not lost."""
        with self:
            self.result = self._work()

    def outcome(self) -> str:
        """Return for people how the call ended."""
        return repr(self.error) if self.error else f"{len(self.result.hits)} hits"

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        self.error = error
        self._leave()
        return True


class CalledPluginContract(PluginContract):
    """What holds for every plugin that is called for somebody, with ports and errors for people."""

    secrets: Mapping[str, str] = {}
    has_access_rules = True
    never_fails = ""
    timeout_s = 20.0

    def scope(self) -> Scope:
        """Return who asks when nobody says: an operator, who sees all."""
        return Scope.operator()

    def ports(self) -> SourcePorts:
        """Return what the house lends the plugin; by default the secrets alone."""
        return LentPorts(self.secrets)

    def _check_error(self, error: BaseException) -> None:
        shown = str(error)
        assert shown.strip(), f"{type(error).__name__} says nothing"
        assert not any(secret in shown for secret in self.secrets.values()), "it shows a secret"

    def _skip_for(self, reason: str) -> None:
        if reason:
            raise SkipTest(reason)


class SourceContract(CalledPluginContract):
    """What holds for every source. Each hook returns a question as text or an ``Ask``.

    Always to be set: ``plugin``, ``query_with_hits`` and ``query_without_hits``. To be set or
    declined: ``hidden_query`` (or ``has_access_rules = False``), ``slow_query`` (or a reason in
    ``is_never_slow``), ``failing_query`` (or a reason in ``never_fails``). What a hook needs (a
    server, rows) is best made by an autouse fixture of the subclass that sets attributes of self.
    Some tests call from other threads: a source on a Django database needs committed rows
    (``pytest.mark.django_db(transaction=True)``) and closes its connections in ``leave_thread``.
    """

    kind = "source"
    is_never_slow = ""
    cancel_within_s = 1.0

    def query_with_hits(self) -> str | Ask:
        """Return a question that the source answers with one hit or more."""
        raise NotImplementedError("query_with_hits: a question that finds something")

    def query_without_hits(self) -> str | Ask:
        """Return a question that the source has nothing on."""
        raise NotImplementedError("query_without_hits: a question that finds nothing")

    def hidden_query(self) -> str | Ask:
        """Return a question with hits for ``scope()`` of which an anonymous caller may see none."""
        raise NotImplementedError("hidden_query, or has_access_rules = False")

    def slow_query(self) -> str | Ask:
        """Return a question that takes at least three seconds when nobody stops it."""
        raise NotImplementedError("slow_query, or a reason in is_never_slow")

    def failing_query(self) -> str | Ask:
        """Return a question on which what is behind the source fails."""
        raise NotImplementedError("failing_query, or a reason in never_fails")

    def leave_thread(self) -> None:
        """Called at the end of each thread, to close what the source opened for it."""

    def test_a_question_it_knows_has_ranked_hits(self) -> None:
        result = self._retrieve(self.query_with_hits())
        assert isinstance(result, SourceResult), f"retrieve returned {type(result).__name__}"
        assert result.hits, "query_with_hits found nothing"
        assert [hit.rank for hit in result.hits] == list(range(1, len(result.hits) + 1))
        for hit in result.hits:
            assert isinstance(hit.text, str) and hit.text.strip(), f"hit {hit.rank} has no text"
            assert hit.source == self.plugin.name, f"hit {hit.rank} is of “{hit.source}”"
            assert hit.score is None or math.isfinite(hit.score), f"hit {hit.rank}: {hit.score}"

    def test_its_hits_survive_json(self) -> None:
        for hit in self._retrieve(self.query_with_hits()).hits:
            stored = _through_json(hit)
            assert Hit.from_dict(stored) == hit
            assert not any(secret in str(stored) for secret in self.secrets.values()), (
                f"hit {hit.rank} shows a secret"
            )

    def test_nothing_found_is_an_empty_result(self) -> None:
        result = self._retrieve(self.query_without_hits())
        assert isinstance(result, SourceResult), f"retrieve returned {type(result).__name__}"
        assert result.hits == ()
        assert all(isinstance(note, str) and note for note in result.notes)

    def test_any_question_ends_in_a_result_or_an_error_for_people(self) -> None:
        ask = _ask(self.query_with_hits())
        for text in odd_texts():
            try:
                result = self._retrieve(Ask(text, ask.options, ask.values, ask.scope))
            except RAGError as error:
                self._check_error(error)
            else:
                assert isinstance(result, SourceResult), f"{text[:20]!r}: no SourceResult"
                for hit in result.hits:
                    _through_json(hit)

    def test_a_deadline_that_is_over_ends_the_call_at_once(self) -> None:
        error, took_s = self._failure(self.query_with_hits(), Deadline(0.0))
        assert isinstance(error, ProviderTimeoutError), f"no timeout: {error!r}"
        assert took_s <= self.cancel_within_s, f"it took {took_s:.2f} s"

    def test_a_call_that_nobody_waits_for_ends_at_once(self) -> None:
        deadline = Deadline(self.timeout_s)
        deadline.cancel()
        error, took_s = self._failure(self.query_with_hits(), deadline)
        assert isinstance(error, CancelledError), f"not cancelled: {error!r}"
        assert took_s <= self.cancel_within_s, f"it took {took_s:.2f} s"

    def test_a_running_call_can_be_cancelled(self) -> None:
        self._skip_for(self.is_never_slow)
        deadline = Deadline(self.timeout_s)
        call = self._start(self.slow_query(), deadline)
        call.join(0.5)
        assert call.is_alive(), f"slow_query was over after half a second: {call.outcome()}"
        start = time.monotonic()
        deadline.cancel()
        call.join(self.cancel_within_s + 5)
        took_s = time.monotonic() - start
        assert not call.is_alive(), "the call went on after it was cancelled"
        assert isinstance(call.error, CancelledError), f"not cancelled: {call.outcome()}"
        assert took_s <= self.cancel_within_s, f"it went on for {took_s:.2f} s"

    def test_a_slow_call_ends_at_its_deadline(self) -> None:
        self._skip_for(self.is_never_slow)
        call = self._start(self.slow_query(), Deadline(0.5))
        call.join(0.5 + self.cancel_within_s)
        assert not call.is_alive(), "the call went on after its deadline"
        assert isinstance(call.error, ProviderTimeoutError), f"no timeout: {call.outcome()}"

    def test_who_may_not_see_a_hit_does_not_get_it(self) -> None:
        self._skip_for("" if self.has_access_rules else "the source has no access rules")
        ask = _ask(self.hidden_query())
        hidden = _places(self._retrieve(ask).hits)
        assert hidden, "hidden_query finds nothing even for those who may see it"
        for outsider in (Scope.anonymous(), Scope(user_id=2**31 - 1)):
            try:
                seen = self._retrieve(Ask(ask.text, ask.options, ask.values, outsider)).hits
            except (ForbiddenError, NotFoundError) as refusal:
                self._check_error(refusal)
            else:
                assert not hidden & _places(seen), "an outsider sees what is hidden"

    def test_what_fails_behind_it_is_an_error_for_people(self) -> None:
        self._skip_for(self.never_fails)
        error, _ = self._failure(self.failing_query(), Deadline(self.timeout_s))
        assert isinstance(error, RAGError), f"no error for people: {error!r}"
        self._check_error(error)

    def test_threads_get_what_one_caller_gets(self) -> None:
        asks = [_ask(self.query_with_hits()), _ask(self.query_without_hits())]
        alone = [self._retrieve(ask).hits for ask in asks]
        sources = [self.make(ask.options) for ask in asks]
        if asks[0].options == asks[1].options:
            sources[1] = sources[0]
        calls = [
            self._start(asks[n % 2], Deadline(self.timeout_s), sources[n % 2]) for n in range(8)
        ]
        for n, call in enumerate(calls):
            call.join(self.timeout_s)
            assert not call.is_alive() and call.error is None, f"a thread: {call.outcome()}"
            assert call.result.hits == alone[n % 2], "a thread got other hits"

    def query(self, ask: str | Ask, deadline: Deadline | None = None) -> SourceQuery:
        """Return what the source is handed for ``ask``."""
        ask = _ask(ask)
        return SourceQuery(
            text=ask.text,
            scope=ask.scope or self.scope(),
            deadline=deadline or Deadline(self.timeout_s),
            ports=self.ports(),
            values={"user_query": ask.text, **ask.values},
        )

    def _retrieve(self, ask: str | Ask, deadline: Deadline | None = None) -> SourceResult:
        result: SourceResult = self.make(_ask(ask).options).retrieve(self.query(ask, deadline))
        return result

    def _failure(self, ask: str | Ask, deadline: Deadline) -> tuple[BaseException | None, float]:
        """Return what the call raised and how long it took, at most 30 seconds."""
        start = time.monotonic()
        call = self._start(ask, deadline)
        call.join(30.0)
        assert not call.is_alive(), "the call does not end"
        return call.error, time.monotonic() - start

    def _start(self, ask: str | Ask, deadline: Deadline, source: Any = None) -> Call:
        query, options = self.query(ask, deadline), _ask(ask).options
        call = Call(lambda: (source or self.make(options)).retrieve(query), leave=self.leave_thread)
        call.start()
        return call


def _ask(ask: str | Ask) -> Ask:
    return Ask(ask) if isinstance(ask, str) else ask


def _places(hits: Sequence[Hit]) -> set[tuple[str, str, int]]:
    return {(hit.document_id, hit.text, hit.char_start) for hit in hits}


def _through_json(hit: Hit) -> dict[str, Any]:
    raw = json.dumps(hit.as_dict(), ensure_ascii=False, allow_nan=False).encode()
    found: dict[str, Any] = json.loads(raw)
    return found
