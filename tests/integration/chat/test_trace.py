"""How an answer came about stays readable: decisions as rows, calls of models in the ledger."""

from __future__ import annotations

import io
import logging
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from agents import models
from agents.chat.answers.event_log import MAX_CHARACTERS, trace_steps
from agents.chat.answers.trace import answer_trace
from agents.core.chat_events import ChatEvent
from agents.runtime.retention import purge_events
from project.logs import JsonFormatter
from rag import models as rag_models
from rag.core.access import Scope
from rag.core.errors import LimitError, NotFoundError
from rag.services.access.api_keys import authenticate_key, create_key, scope_of
from rag.services.usage.budgets import save_budget
from tests.edges.api_client import client_for, error_of, ok
from tests.factories import FileFactory, UserFactory, publish
from tests.integration.agent_world import CITED, QUOTE, AgentWorld, world

__all__ = ["world"]
QUESTION = "How often is the pump serviced?"


def test_an_answers_decisions_and_calls_are_kept_when_its_events_are_gone(
    world: AgentWorld, settings: Any
) -> None:
    settings.RAG = {**settings.RAG, "PRICES": {"test:model": {"input": 1000, "output": 1000}}}
    world.use(lambda request: CITED)
    answer = world.ask(QUESTION).row
    purge_events(older_than_h=-1)
    assert not answer.events.exists()
    told = answer_trace(key=str(answer.key), scope=world.scope)
    steps = {(step["kind"], step["name"]): step for step in told["steps"]}
    assert steps["step", "route"]["data"]["route"] == "retrieve"
    assert steps["step", "search"]["outcome"] == "ok"
    assert steps["step", "generate"]["duration_ms"] > 0
    (hits,) = [step["data"]["hits"] for step in told["steps"] if step["kind"] == "sources"]
    assert hits[0]["chunk_id"] and hits[0]["revision"] == 1 and "score" in hits[0]
    assert not any("text" in hit for hit in hits)
    (call,) = told["calls"]
    assert (call["kind"], call["model"], call["agent"]) == ("chat", "model", "desk")
    assert (call["input_tokens"], call["output_tokens"], call["cost"]) == (10, 5, 0.015)
    assert len(call["prompt_sha256"]) == 64 and told["is_cost_complete"]
    assert told["cost"] == {"USD": pytest.approx(0.015)}
    record = rag_models.UsageRecord.objects.get(run=str(answer.key))
    assert (record.user, record.store) == (world.user, world.store)
    assert record.cost == Decimal("0.015")


def test_the_same_prompt_has_the_same_hash_and_another_one_another(world: AgentWorld) -> None:
    world.use(lambda request: CITED)
    for question in (QUESTION, QUESTION, "How long is the warranty of the pump?"):
        world.ask(question)
    found = list(
        rag_models.UsageRecord.objects.order_by("pk").values_list("prompt_sha256", flat=True)
    )
    assert found[0] == found[1] != found[2]


def test_only_whose_conversation_it_is_sees_it(world: AgentWorld) -> None:
    world.use(lambda request: CITED)
    answer = world.ask(QUESTION).row
    path = f"/api/messages/{answer.key}/trace"
    assert ok(client_for(world.user).get(path))["message"] == str(answer.key)
    for stranger in (UserFactory(), UserFactory(is_superuser=True)):
        error_of(client_for(stranger).get(path), 404)
        with pytest.raises(NotFoundError):
            answer_trace(key=str(answer.key), scope=scope_of(stranger))
    error_of(client_for(world.user).get(f"/api/messages/{uuid.uuid4()}/trace"), 404)
    error_of(client_for(world.user, rights=["write"]).get(path), 403)
    with pytest.raises(NotFoundError):
        answer_trace(key=str(answer.key), scope=Scope.anonymous())


def test_an_agent_asked_with_a_key_is_on_the_keys_budget(world: AgentWorld) -> None:
    world.use(lambda request: CITED)
    key, secret = create_key(user=world.user, name="app")
    save_budget(budget=rag_models.Budget(key=key, max_tokens=10))
    world.scope = authenticate_key(secret=secret).scope
    world.ask(QUESTION)
    assert rag_models.UsageRecord.objects.get().key == key
    n = models.Message.objects.count()
    with pytest.raises(LimitError, match="10 tokens a month"):
        world.ask(QUESTION)
    # Refused before anything is written.
    assert models.Message.objects.count() == n


def test_arguments_are_kept_short_and_texts_are_not_kept() -> None:
    long = "x" * 2000
    events = [
        ChatEvent(1, "delta", {"text": "secret"}),
        ChatEvent(
            2,
            "tool_call",
            {"tool": "vector_retrieve", "arguments": {"q": long, "n": [1, {"a": {"b": {"c": 1}}}]}},
        ),
        ChatEvent(
            3,
            "tool_result",
            {"tool": "vector_retrieve", "text": "secret", "is_error": False, "duration_ms": 5},
        ),
        ChatEvent(4, "error", {"code": "provider", "error": {"message": "no"}}),
    ]
    call, result, error = trace_steps(message_id=1, events=events, at=datetime.now(UTC))
    assert (call.kind, call.name) == ("tool_call", "vector_retrieve")
    assert len(call.data["arguments"]["q"]) == MAX_CHARACTERS + 1
    assert call.data["arguments"]["n"] == [1, {"a": {"b": None}}]
    assert (result.data, result.duration_ms) == ({"is_error": False}, 5.0)
    assert (error.outcome, error.data) == ("provider", {"error": {"message": "no"}})


def test_logs_at_info_hold_no_text_of_documents_questions_or_answers(world: AgentWorld) -> None:
    publish(FileFactory(store=world.store, name="x.txt"), "Zirkonium is stored in vault Q-17.")
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        world.use(lambda request: CITED)
        world.ask("Where is zirkonium stored?")
        client = client_for(world.user)
        ok(
            client.send(
                "post", "/api/rag/ask", {"query": "Where is zirkonium?", "stores": ["manuals"]}
            )
        )
        world.use(lambda request: 1 / 0)
        broken = world.ask("Where is zirkonium stored, again?").row
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    told = out.getvalue().lower()
    assert f"the answer {broken.key} has a fault" in told and "zerodivisionerror" in told
    for hidden in ("zirkonium", "q-17", QUOTE.lower(), "ck_"):
        assert hidden not in told
