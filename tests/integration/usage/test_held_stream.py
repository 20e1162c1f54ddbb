"""Streams of Gemini's own search: what they used is kept, however they end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from asgiref.sync import async_to_sync

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import LimitError, ProviderError
from rag.core.file_search import GroundedAnswer
from rag.services.access.api_keys import create_key
from rag.services.usage.metering import metered_stream
from tests.factories import UserFactory

PIECES = [
    GroundedAnswer(text, model="gemini:flash", input_tokens=70, output_tokens=n)
    for n, text in enumerate(("Two ", "years", ""), 1)
]


class Source:
    """Gives pieces, fails after some of them, and knows whether it was closed."""

    def __init__(self, fails_after: int | None = None) -> None:
        self.fails_after, self.n_given, self.is_closed = fails_after, 0, False

    async def pieces(self) -> AsyncIterator[GroundedAnswer]:
        try:
            for piece in PIECES:
                if self.n_given == self.fails_after:
                    raise ProviderError("The connection broke off.")
                self.n_given += 1
                yield piece
        finally:
            self.is_closed = True


@pytest.fixture
def scope(db: None) -> Scope:
    key = create_key(user=UserFactory(), name="app")[0]
    models.Budget.objects.create(key=key, period="day", max_tokens=1000)
    return Scope(user_id=key.user_id, key_id=key.pk)


def heard(scope: Scope, source: Source, most: int = 9) -> int:
    """Return how many pieces came; leave after ``most``."""

    async def listen() -> int:
        n = 0
        stream = metered_stream(
            pieces=source.pieces(), kind="fileSearch", scope=scope, deadline=Deadline(30)
        )
        try:
            async for _ in stream:
                n += 1
                if n == most:
                    break
        finally:
            await stream.aclose()  # type: ignore[attr-defined]
        return n

    return async_to_sync(listen)()


def ledger() -> list[tuple[str, int | None, int | None]]:
    rows = models.UsageRecord.objects.order_by("pk")
    return list(rows.values_list("outcome", "input_tokens", "output_tokens"))


def spent() -> tuple[int, int]:
    """Return the tokens spent and how many holds there are."""
    return models.Budget.objects.get().spent_tokens, models.BudgetHold.objects.count()


def test_a_whole_answer_is_kept_once(scope: Scope) -> None:
    assert heard(scope, Source()) == 3
    assert ledger() == [("ok", 70, 3)]
    assert spent() == (73, 0)


def test_who_leaves_pays_for_what_came(scope: Scope) -> None:
    source = Source()
    assert heard(scope, source, most=2) == 2
    assert source.is_closed
    assert ledger() == [("stopped", 70, 2)]
    assert spent() == (72, 0)


@pytest.mark.parametrize(("fails_after", "rows"), [(1, [("failed", 70, 1)]), (0, [])])
def test_a_failure_costs_what_came_before_it(
    scope: Scope, fails_after: int, rows: list[tuple[str, int, int]]
) -> None:
    with pytest.raises(ProviderError, match="broke off"):
        heard(scope, Source(fails_after))
    assert ledger() == rows
    assert spent() == (71 if rows else 0, 0)


def test_a_budget_that_is_used_up_asks_for_nothing(scope: Scope) -> None:
    models.Budget.objects.update(max_tokens=73)
    heard(scope, Source())
    source = Source()
    with pytest.raises(LimitError):
        heard(scope, source)
    assert (source.n_given, len(ledger()), spent()) == (0, 1, (73, 0))
