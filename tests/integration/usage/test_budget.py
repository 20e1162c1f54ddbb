"""Budgets of keys: refused when used up, begun anew in time, overdrawn by one call at most."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ForbiddenError, LimitError, ProviderError
from rag.core.file_search import GroundedAnswer
from rag.core.ports import ChatRequest
from rag.core.request_context import UsageAccount
from rag.core.types import ChatReply, Message
from rag.services.access.api_keys import create_key
from rag.services.usage.budgets import check_budget, period_end, period_start, reserve
from rag.services.usage.ledger import record_answer
from rag.services.usage.metering import MeteredChat, reserve_answer, reserved_answer
from tests.factories import UserFactory

MODEL = "test:model"
REQUEST = ChatRequest([Message("user", "word " * 10)], max_tokens=100)


class Model:
    """Answers with as many tokens as it is told to, or fails."""

    id = MODEL

    def __init__(self, tokens: int = 110, error: Exception | None = None) -> None:
        self.tokens, self.error, self.n_calls = tokens, error, 0
        self.gate: Any = None

    def generate(self, request: ChatRequest) -> ChatReply:
        self.n_calls += 1
        if self.gate:
            self.gate.wait(10)
        if self.error:
            raise self.error
        return ChatReply("answer", self.id, "stop", 10, self.tokens - 10)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        yield self.generate(request)


@pytest.fixture
def key(db: None) -> models.ApiKey:
    return create_key(user=UserFactory(), name="app")[0]


def budget(key: models.ApiKey, **values: Any) -> models.Budget:
    return models.Budget.objects.create(key=key, **{"period": "day", **values})


def metered(key: models.ApiKey, model: Model) -> MeteredChat:
    return MeteredChat(model, UsageAccount(user_id=key.user_id, key_id=key.pk))


def test_calls_are_made_until_the_tokens_are_used_up(key: models.ApiKey) -> None:
    row, model = budget(key, max_tokens=250), Model()
    chat = metered(key, model)
    for _ in range(3):
        chat.generate(REQUEST)
    with pytest.raises(LimitError) as refused:
        chat.generate(REQUEST)
    told = str(refused.value)
    assert told.startswith("This key's budget of 250 tokens a day is used up. It begins anew at ")
    assert 0 < refused.value.params["retry_after_s"] <= 86400
    assert model.n_calls == 3
    row.refresh_from_db()
    assert (row.spent_tokens, models.BudgetHold.objects.count()) == (330, 0)
    with pytest.raises(LimitError):
        check_budget(key_id=key.pk)


async def test_a_stream_is_refused_before_the_model_is_asked(key: models.ApiKey) -> None:
    await models.Budget.objects.acreate(
        key=key,
        period="month",
        max_tokens=5,
        spent_tokens=5,
        period_start=period_start(period="month", at=timezone.now()),
    )
    model = Model()
    with pytest.raises(LimitError, match="5 tokens a month"):
        async for _ in metered(key, model).stream(REQUEST):
            pass
    assert model.n_calls == 0


def test_money_is_counted_in_its_currency(key: models.ApiKey, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "PRICES": {MODEL: {"input": 1000, "output": 1000}}}
    row = budget(key, max_cost=Decimal("0.2"), currency="USD")
    chat = metered(key, Model())
    chat.generate(REQUEST)
    chat.generate(REQUEST)
    with pytest.raises(LimitError, match=r"budget of 0.2 USD a day"):
        chat.generate(REQUEST)
    row.refresh_from_db()
    assert row.spent_cost == Decimal("0.22")


@pytest.mark.parametrize("prices", [{}, {MODEL: {"input": 1, "currency": "EUR"}}])
def test_a_budget_in_money_refuses_what_has_no_price_in_it(
    prices: Any, key: models.ApiKey, settings: Any
) -> None:
    settings.RAG = {**settings.RAG, "PRICES": prices}
    budget(key, max_cost=1, currency="USD")
    with pytest.raises(ForbiddenError, match="what test:model costs in it is not known"):
        metered(key, Model()).generate(REQUEST)
    extractive = Model()
    extractive.id = "extractive:sentences"
    metered(key, extractive).generate(REQUEST)


def test_a_call_that_fails_gives_back_what_it_held(key: models.ApiKey) -> None:
    row = budget(key, max_tokens=100)
    with pytest.raises(ProviderError):
        metered(key, Model(error=ProviderError("no"))).generate(REQUEST)
    row.refresh_from_db()
    assert (row.spent_tokens, models.BudgetHold.objects.count()) == (0, 0)
    metered(key, Model()).generate(REQUEST)


def test_a_dead_call_holds_only_until_it_expires(key: models.ApiKey) -> None:
    budget(key, max_tokens=100)
    ask = {"account": UsageAccount(key_id=key.pk), "model": MODEL, "input_tokens": 10}
    held = reserve(**ask, output_tokens=95, timeout_s=60)
    assert held is not None
    with pytest.raises(LimitError):
        reserve(**ask, output_tokens=1, timeout_s=60)
    models.BudgetHold.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert reserve(**ask, output_tokens=1, timeout_s=60) is not None
    assert models.BudgetHold.objects.count() == 1


def test_a_new_period_begins_with_nothing_spent(key: models.ApiKey) -> None:
    before = period_start(period="day", at=timezone.now()) - timedelta(days=1)
    row = budget(key, max_tokens=100, spent_tokens=5000, period_start=before)
    metered(key, Model(tokens=50)).generate(REQUEST)
    row.refresh_from_db()
    assert (row.spent_tokens, row.period_start) == (50, before + timedelta(days=1))


def test_answers_of_geminis_own_search_hold_a_guess_and_settle_what_they_took(
    key: models.ApiKey,
) -> None:
    row = budget(key, max_tokens=100)
    scope = Scope(user_id=key.user_id, key_id=key.pk)
    asked: dict[str, Any] = {"scope": scope, "deadline": Deadline(30)}
    with pytest.raises(ProviderError), reserved_answer(**asked):
        assert models.BudgetHold.objects.get().tokens == 12_000
        raise ProviderError("no")
    with reserved_answer(**asked) as hold, pytest.raises(LimitError), reserved_answer(**asked):
        pass
    answer = GroundedAnswer("text", model="gemini:flash", input_tokens=70, output_tokens=50)
    record_answer(answer=answer, kind="fileSearch", scope=scope, hold=hold)
    row.refresh_from_db()
    assert (row.spent_tokens, models.BudgetHold.objects.count()) == (120, 0)
    assert models.UsageRecord.objects.get().key == key
    with pytest.raises(LimitError):
        reserve_answer(scope=scope, deadline=Deadline(30))


def test_keys_without_a_budget_hold_nothing(key: models.ApiKey) -> None:
    metered(key, Model()).generate(REQUEST)
    assert models.UsageRecord.objects.get().key == key
    assert (
        reserve(account=UsageAccount(), model=MODEL, input_tokens=1, output_tokens=1, timeout_s=1)
        is None
    )


def test_periods_begin_at_midnight_of_the_installation(settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    # The night in which the clock is put back: the day has 25 hours.
    at = datetime(2026, 10, 25, 12, tzinfo=UTC)
    start, end = period_start(period="day", at=at), period_end(period="day", at=at)
    assert end - start == timedelta(hours=25) or end.astimezone(UTC) - start.astimezone(
        UTC
    ) == timedelta(hours=25)
    assert period_end(period="month", at=datetime(2026, 12, 31, 12, tzinfo=UTC)).month == 1


@pytest.mark.django_db(transaction=True)
def test_calls_side_by_side_overdraw_by_one_call_at_most() -> None:
    key = create_key(user=UserFactory(), name="app")[0]
    row, model = budget(key, max_tokens=330), Model()
    model.gate = threading.Event()
    outcomes: list[str] = []

    def call() -> None:
        try:
            metered(key, model).generate(REQUEST)
            outcomes.append("ok")
        except LimitError:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=call) for _ in range(12)]
    for thread in threads:
        thread.start()
    while outcomes.count("refused") + model.n_calls < 12:
        threads[0].join(0.01)
    model.gate.set()
    for thread in threads:
        thread.join(10)
    row.refresh_from_db()
    assert outcomes.count("ok") == model.n_calls == row.spent_tokens // 110
    assert 330 <= row.spent_tokens < 330 + 110 + 1
    assert models.BudgetHold.objects.count() == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("model", "max_tokens"), [(MODEL, 1), (MODEL, 0), ("extractive:x", 0)])
def test_a_refusal_leaves_no_connection_with_its_thread(model: str, max_tokens: int) -> None:
    key = create_key(user=UserFactory(), name="app")[0]
    budget(key, max_tokens=max_tokens)
    account = UsageAccount(user_id=key.user_id, key_id=key.pk)

    def admitted() -> tuple[bool, bool]:
        try:
            # As when the calls that wait are written first.
            models.UsageRecord.objects.exists()
            ask = {"model": model, "input_tokens": 1, "output_tokens": 1, "timeout_s": 1.0}
            is_held = reserve(account=account, **ask) is not None
        except LimitError:
            is_held = False
        return is_held, connection.connection is None

    # As a thread that embeds: it ends with the error, and nobody else can give it back.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(admitted).result(20) == (bool(max_tokens), True)
