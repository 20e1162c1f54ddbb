"""The ledger: each call of a model is a row, with tokens, money, and on whose account it was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection

from rag import models
from rag.core.access import Scope
from rag.core.errors import ConfigurationError, ProviderError
from rag.core.hits import Hit
from rag.core.ports import ChatRequest
from rag.core.request_context import (
    RequestContext,
    UsageAccount,
    current_account,
    set_request,
    use_account,
)
from rag.core.types import Message
from rag.services.access.api_keys import scope_of
from rag.services.answers.question_answering import ask, stream_ask
from rag.services.search.postprocessing import rerank_hits
from rag.services.stores.lifecycle import create_store
from rag.services.tokens import count_tokens
from rag.services.usage.budgets import price_of, read_price
from rag.services.usage.ledger import ModelCall, record_call
from rag.services.wiring import registry as wiring
from rag.services.wiring.registry import chat_for, embedder_for
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.fakes.loopback import Reply
from tests.fakes.openai_server import OpenAIServer, Script

pytestmark = pytest.mark.django_db
MODEL = "openai_compatible:qwen3"
PRICE = {"input": 2, "output": 10, "currency": "usd"}
REQUEST = ChatRequest([Message("user", "How long is the warranty of the pump?")])


@pytest.fixture
def server(
    monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> Iterator[OpenAIServer]:
    use_words_embedder(monkeypatch, settings)
    with OpenAIServer() as server:
        settings.RAG = {
            **settings.RAG,
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "k",
            "PRICES": {MODEL: PRICE},
        }
        yield server


@pytest.fixture
def store() -> models.Store:
    store = StoreFactory(is_public=True)
    publish(FileFactory(store=store), "The warranty of the pump lasts two years.")
    return store


def the_record(**only: Any) -> models.UsageRecord:
    return models.UsageRecord.objects.get(**only)


def test_an_answer_is_on_the_account_of_who_asked(
    server: OpenAIServer, store: models.Store
) -> None:
    user = UserFactory()
    ask(question="How long?", scope=scope_of(user), stores=[store], model=MODEL)
    record = the_record()
    assert (record.kind, record.provider, record.model) == ("ask", "openai_compatible", "qwen3")
    assert (record.user, record.store, record.key) == (user, store, None)
    assert record.input_tokens and record.output_tokens and not record.is_estimated
    assert record.cost == Decimal(2 * record.input_tokens + 10 * record.output_tokens) / 10**6
    assert (record.currency, record.outcome) == ("USD", "ok")
    assert len(record.prompt_sha256) == 64 and (record.duration_ms or 0) > 0


async def test_a_streamed_answer_costs_the_same_and_once(
    server: OpenAIServer, store: models.Store
) -> None:
    told = stream_ask(question="How long?", scope=Scope.operator(), stores=[store], model=MODEL)
    assert [piece async for piece in told]
    found = [record async for record in models.UsageRecord.objects.values()]
    assert len(found) == 1 and found[0]["cost"] > 0 and found[0]["user_id"] is None


async def test_who_leaves_pays_for_what_was_written(server: OpenAIServer) -> None:
    server.chat = Script(pieces=("Two years, ", "says the manual, ", "at most."), pause_s=0.05)
    stream: Any = wiring.chat_model(MODEL).stream(REQUEST)
    async with aclosing(stream):
        first = await anext(stream)
    record = await models.UsageRecord.objects.aget()
    assert (record.outcome, record.is_estimated) == ("stopped", True)
    assert record.input_tokens == count_tokens(REQUEST.messages[0].content)
    assert record.output_tokens == count_tokens(first.text) and record.cost


async def test_a_stream_that_breaks_is_kept_and_one_that_never_came_is_not(
    server: OpenAIServer,
) -> None:
    server.chat = Script(pieces=("Two ", "years"), ending="cut")
    with pytest.raises(ProviderError):
        async for _ in wiring.chat_model(MODEL).stream(REQUEST):
            pass
    assert (await models.UsageRecord.objects.aget()).outcome == "failed"
    server.key = "other"
    with pytest.raises(ProviderError):
        await asyncio.to_thread(wiring.chat_model(MODEL).generate, REQUEST)
    assert await models.UsageRecord.objects.acount() == 1


async def test_a_server_that_counts_nothing_is_counted_by_us(server: OpenAIServer) -> None:
    server.chat = Script(has_usage=False)
    async for _ in wiring.chat_model(MODEL).stream(REQUEST):
        pass
    record = await models.UsageRecord.objects.aget()
    assert record.is_estimated and record.output_tokens == count_tokens("".join(Script().pieces))


def test_a_model_without_a_price_has_no_cost_and_not_the_cost_zero(
    server: OpenAIServer, settings: Any
) -> None:
    settings.RAG = {**settings.RAG, "PRICES": {}}
    wiring.chat_model(MODEL).generate(REQUEST)
    record = the_record()
    assert (record.cost, record.currency) == (None, "") and record.input_tokens


def test_the_offline_model_is_a_row_without_tokens(server: OpenAIServer, store: Any) -> None:
    ask(question="How long is the warranty?", scope=Scope.operator(), stores=[store])
    record = the_record(provider="extractive")
    assert (record.input_tokens, record.output_tokens, record.cost) == (None, None, None)


def test_texts_of_a_store_are_embedded_on_its_account(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.undo()
    settings.RAG = {**settings.RAG, "PRICES": {"openai_compatible:e*": {"input": 1}}}
    store = create_store(name="Remote", embedding_model="openai_compatible:emb")
    models.UsageRecord.objects.all().delete()
    texts = [f"The warranty of pump {n} lasts two years." for n in range(70)]
    assert embedder_for(store=store).embed_passages(texts).shape == (70, 16)
    record = the_record()
    assert (record.kind, record.store, record.output_tokens) == ("embedding", store, 0)
    # The server counts characters, in two requests.
    assert record.input_tokens == sum(map(len, texts)) and not record.is_estimated
    assert record.cost == Decimal(record.input_tokens) / 10**6
    wiring.embedder("openai_compatible:emb").embed_query("How long?")
    assert the_record(kind="query").input_tokens == len("How long?")


def test_ranking_again_is_a_row_by_a_model_and_by_an_endpoint(
    server: OpenAIServer, settings: Any
) -> None:
    hits = [Hit(chunk_id=n, text=f"text {n}", rank=n, score=0.5) for n in (1, 2)]
    server.chat = Script(pieces=('{"ranking": []}',))
    with pytest.raises(ProviderError):
        rerank_hits(query="q", hits=hits, method="llm", model=MODEL)
    assert the_record().kind == "rerank"
    scores = [{"index": n, "relevance_score": 0.5} for n in (0, 1)]
    body = {"results": scores, "usage": {"total_tokens": 77}}
    server.route("POST", "/rerank", lambda call: Reply(body))
    settings.RAG = {**settings.RAG, "RERANK_URL": server.origin, "RERANK_MODEL": "jina"}
    with use_account(agent="desk"):
        rerank_hits(query="q", hits=hits, method="endpoint")
    record = the_record(provider="endpoint")
    assert (record.model, record.input_tokens, record.output_tokens) == ("jina", 77, 0)
    assert (record.agent, record.kind) == ("desk", "rerank")


def test_work_without_a_scope_is_on_the_account_of_the_request(server: OpenAIServer) -> None:
    user = UserFactory()

    def work() -> None:
        set_request(RequestContext("api", user_id=user.pk))
        wiring.chat_model(MODEL).generate(REQUEST)
        chat_for(scope=Scope.anonymous(), kind="tool", model=MODEL).generate(REQUEST)

    import contextvars

    contextvars.copy_context().run(work)
    assert {(one.user_id, one.kind) for one in models.UsageRecord.objects.all()} == {
        (user.pk, "other"),
        (user.pk, "tool"),
    }
    assert current_account() == UsageAccount()


def test_a_price_is_found_by_name_then_by_the_longest_pattern(settings: Any) -> None:
    settings.RAG = {
        **settings.RAG,
        "PRICES": {"a:*": {"input": 1}, "a:b*": {"input": "2.5", "output": 3}, "a:bc": PRICE},
    }
    found = [price_of(model=name) for name in ("a:x", "a:bx", "a:bc", "b:x")]
    assert [price and (price.input, price.output) for price in found] == [
        (1, 0),
        (Decimal("2.5"), 3),
        (2, 10),
        None,
    ]
    assert found[2] and found[2].cost(1_500_000, 100) == Decimal("3.001")
    assert found[2].cost(None, 5) is None is found[2].cost(5, None)


@pytest.mark.parametrize(
    "price",
    [{}, {"input": -1}, {"input": "x"}, {"input": "NaN"}, {"input": 1, "currency": "US"}, 3],
)
def test_a_price_that_is_none_is_said_and_not_guessed(
    price: Any, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.RAG = {**settings.RAG, "PRICES": {"a:b": price}}
    assert price_of(model="a:b") is None
    assert "RAG_PRICES names no price for a:b" in caplog.text
    with pytest.raises(ConfigurationError):
        read_price(name="a:b")


def test_a_call_whose_store_was_deleted_meanwhile_is_in_the_ledger_without_it() -> None:
    user, gone = UserFactory(), StoreFactory()
    account = UsageAccount(user_id=user.pk, store_id=gone.pk, kind="ask")
    models.Store.objects.filter(pk=gone.pk).delete()
    record_call(call=ModelCall(MODEL, account, 7, 11))
    with connection.cursor() as cursor:
        # As at the end of the transaction that the ledger shares with an answer.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    record = the_record()
    assert (record.store, record.user, record.kind) == (None, user, "ask")
    assert (record.input_tokens, record.output_tokens) == (7, 11)
