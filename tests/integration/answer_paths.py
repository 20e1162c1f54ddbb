"""One question over every path that answers, and what each tells of its answer."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import openai
from asgiref.sync import async_to_sync
from django.core.management import call_command

from agents import models
from agents.chat.mcp.tools import ask_agent
from agents.mixins import RAGMixin
from rag.core.deadline import Deadline
from rag.core.ports import ChatRequest
from rag.core.sources import AnswerRequest
from rag.core.types import Answer, Groundedness, Message
from rag.services.access.api_keys import create_key
from rag.services.answers import answer_grounded, ask, stream_ask
from rag.services.search import retrieve
from rag.services.wiring import registry as wiring
from tests.asgi_server import server_thread
from tests.integration.agent_world import AgentWorld
from tests.integration.flows.test_flow_cited import run_of, simple_flow

OUTCOMES = {"grounded": "answered", "partly": "partial"}


@dataclass(frozen=True)
class PathAnswer:
    """What a path answered: its text, the verdict of each statement and of all."""

    text: str
    verdicts: list[str]
    verdict: str
    outcome: str
    confidence: float | None


def _told(text: str, grounding: Any, outcome: str, confidence: float | None) -> PathAnswer:
    verdicts = [one["verdict"] for one in grounding.get("statements", ())]
    return PathAnswer(text, verdicts, grounding.get("verdict", "not_found"), outcome, confidence)


def by_ask(world: AgentWorld, asked: str) -> PathAnswer:
    answer = ask(question=asked, scope=world.scope, stores=[world.store])
    return _told(answer.text, answer.groundedness.as_dict(), answer.outcome, answer.confidence)


def by_stream(world: AgentWorld, asked: str) -> PathAnswer:
    async def last() -> Answer:
        pieces = stream_ask(question=asked, scope=world.scope, stores=[world.store])
        return [piece async for piece in pieces][-1]  # type: ignore[return-value]

    answer = async_to_sync(last)()
    return _told(answer.text, answer.groundedness.as_dict(), answer.outcome, answer.confidence)


def by_file_search(world: AgentWorld, asked: str) -> PathAnswer:
    request = AnswerRequest(asked, (world.store.resource_name,), ())
    answer = answer_grounded(asked=request, scope=world.scope, deadline=Deadline(30))
    told = answer.groundedness
    assert isinstance(told, Groundedness)
    return _told(answer.text, told.as_dict(), OUTCOMES.get(told.verdict, told.verdict), None)


def by_agent(world: AgentWorld, asked: str, kind: str) -> PathAnswer:
    models.Agent.objects.filter(pk=world.agent.pk).update(agent_type=kind)
    world.agent.refresh_from_db()
    row = world.ask(asked).row
    return _told(row.content, row.grounding, row.outcome, row.confidence)


def by_rag_agent(world: AgentWorld, asked: str) -> PathAnswer:
    return by_agent(world, asked, "rag")


def by_react_agent(world: AgentWorld, asked: str) -> PathAnswer:
    return by_agent(world, asked, "react")


def by_mcp(world: AgentWorld, asked: str) -> PathAnswer:
    found = async_to_sync(ask_agent)(
        arguments={"question": asked, "agent": "desk"}, scope=world.scope
    )
    for one in found["grounding"].get("statements", ()):
        # An MCP client sees nothing but the text: it says so in words.
        is_told = "⚠" in found["answer"]
        assert is_told or one["verdict"] in ("cited", "attributed")
    return _told(found["answer"], found["grounding"], found["outcome"], found["confidence"])


def by_flow(world: AgentWorld, asked: str) -> PathAnswer:
    run = run_of(world, simple_flow(world), asked)
    done = run.events.get(kind="done").data
    assert (done["grounding"], done["outcome"]) == (run.grounding, run.outcome)
    return _told(str(done.get("answer", "")), run.grounding, run.outcome, None)


def by_supervisor(world: AgentWorld, asked: str) -> PathAnswer:
    config = {**world.agent.config, "default_top_k": 3}
    known = {"owner": world.user, "description": "Knows the pump.", "config": config}
    models.Agent.objects.get_or_create(name="pumps", defaults=known)
    world.set(agents=["pumps"])
    chat = wiring.chat_model()
    plan = json.dumps({"calls": [{"agent": "pumps", "question": asked}]})

    def answer(request: ChatRequest) -> str:
        if "team of agents" in request.messages[0].content:
            return plan
        return chat.generate(request).text

    world.use(answer)
    try:
        return by_agent(world, asked, "supervisor")
    finally:
        world.use(chat)


def by_openai(world: AgentWorld, asked: str) -> PathAnswer:
    return _openai(world, asked, is_streamed=False)


def by_openai_stream(world: AgentWorld, asked: str) -> PathAnswer:
    return _openai(world, asked, is_streamed=True)


def _openai(world: AgentWorld, asked: str, *, is_streamed: bool) -> PathAnswer:
    _, secret = create_key(user=world.user, name="k", rights=["read"])
    messages: Any = [{"role": "user", "content": asked}]
    with server_thread() as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=secret, timeout=30)
        create: Any = client.chat.completions.create
        order = {
            "model": "desk",
            "messages": messages,
            "extra_body": {"citable": {"footnotes": True}},
        }
        if is_streamed:
            chunks = list(create(**order, stream=True))
            text = "".join(
                chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices
            )
            about = next(chunk.citable for chunk in chunks if hasattr(chunk, "citable"))
        else:
            whole = create(**order)
            text, about = whole.choices[0].message.content, whole.citable
    told = _told(text, about["grounding"], about["outcome"], about["confidence"])
    # A client of OpenAI shows nothing but the text: it says so in words.
    assert ("⚠" in text) == (not {"unsupported", "contradicted"}.isdisjoint(told.verdicts))
    return told


def by_command(world: AgentWorld, asked: str) -> PathAnswer:
    said = io.StringIO()
    call_command("rag_ask", asked, store=["manuals"], json=True, stdout=said)
    answer = json.loads(said.getvalue())
    shown = io.StringIO()
    call_command("rag_ask", asked, store=["manuals"], stdout=shown)
    verdicts = [one["verdict"] for one in answer["groundedness"]["statements"]]
    for verdict, words in (("unsupported", "Not found"), ("contradicted", "says otherwise")):
        assert (words in shown.getvalue()) == (verdict in verdicts)
    n_found = sum(one in ("cited", "attributed") for one in verdicts)
    statements = "statement" if len(verdicts) == 1 else "statements"
    share = f"{n_found} of {len(verdicts)} {statements} found in the sources"
    assert (share in shown.getvalue()) == bool(verdicts)
    verdict = {"answered": "grounded", "partial": "partly"}.get(answer["outcome"])
    return PathAnswer(
        answer["text"],
        verdicts,
        verdict or answer["outcome"],
        answer["outcome"],
        answer["confidence"],
    )


def by_mixin(world: AgentWorld, asked: str) -> PathAnswer:
    """Judge what a model says of the passages that a search found, as a program's own pages do."""
    hits = retrieve(query=asked, scope=world.scope, stores=[world.store]).hits
    passages = [(f"doc_{n:02d}", hit.text) for n, hit in enumerate(hits, 1)]
    told = "\n\n".join([*(f"[{key}] {text}" for key, text in passages), asked])
    request = ChatRequest([Message("user", told)], question=asked, passages=passages)
    text = wiring.chat_model().generate(request).text
    found = RAGMixin().citation_manager.add_citations(
        text, [hit.as_dict() for hit in hits], question=asked
    )
    grounding = found["grounding"]
    outcome = OUTCOMES.get(grounding["verdict"], grounding["verdict"])
    return _told(found.get("text", text), grounding, outcome, None)


PATHS: dict[str, Callable[[AgentWorld, str], PathAnswer]] = {
    "ask": by_ask,
    "streamed ask": by_stream,
    "Gemini-shaped": by_file_search,
    "rag agent": by_rag_agent,
    "react agent": by_react_agent,
    "supervisor": by_supervisor,
    "/v1": by_openai,
    "/v1 streamed": by_openai_stream,
    "rag_ask": by_command,
    "MCP": by_mcp,
    "flow": by_flow,
    "mixin": by_mixin,
}
