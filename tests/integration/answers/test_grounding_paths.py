"""One answer over every path: what its sources do not say is nowhere taken for an answer."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from asgiref.sync import async_to_sync
from django.core.management import call_command

from agents import models
from agents.chat.mcp.tools import ask_agent
from agents.mixins import RAGMixin
from rag.core.deadline import Deadline
from rag.core.ports import ChatRequest
from rag.core.sources import AnswerRequest
from rag.core.types import Answer, Groundedness
from rag.services.access.api_keys import create_key
from rag.services.answers import answer_grounded, ask, stream_ask
from rag.services.search import retrieve
from rag.services.wiring import registry as wiring
from tests.asgi_server import server_thread
from tests.integration.agent_world import QUOTE, AgentWorld, world
from tests.integration.flows.test_flow_cited import run_of, simple_flow

__all__ = ["world"]

ASKED = "How often will somebody come to our house to have the pump serviced?"
CITE = f'<cite doc_id="doc_01" quote="{QUOTE}"></cite>'
# What a model writes: the verdict of each statement, and of the whole.
ANSWERS = {
    "invents": (
        "Every 999 days, according to the president of Mars.",
        ["unsupported"],
        "ungrounded",
    ),
    "contradicts its quote": (f"The pump needs no service.{CITE}", ["contradicted"], "ungrounded"),
    # Held by what it adds to the question: each path has to know that.
    "cites nothing": (
        "Somebody will come to our house to have the pump serviced every 30 days.",
        ["attributed"],
        "grounded",
    ),
    "cites": (f"Every 30 days.{CITE}", ["cited"], "grounded"),
    "invents beside": (f"Every 30 days.{CITE} Mars owns it.", ["cited", "unsupported"], "partly"),
    "refuses": ("I do not know: the documents do not say it.", [], "not_found"),
}
OUTCOMES = {"grounded": "answered", "partly": "partial"}
Told = tuple[list[str], str, str, float | None]


def _told(grounding: Any, outcome: str, confidence: float | None) -> Told:
    verdicts = [one["verdict"] for one in grounding.get("statements", ())]
    return verdicts, grounding.get("verdict", "not_found"), outcome, confidence


def by_ask(world: AgentWorld) -> Told:
    answer = ask(question=ASKED, scope=world.scope, stores=[world.store])
    return _told(answer.groundedness.as_dict(), answer.outcome, answer.confidence)


def by_stream(world: AgentWorld) -> Told:
    async def last() -> Answer:
        pieces = stream_ask(question=ASKED, scope=world.scope, stores=[world.store])
        return [piece async for piece in pieces][-1]  # type: ignore[return-value]

    answer = async_to_sync(last)()
    return _told(answer.groundedness.as_dict(), answer.outcome, answer.confidence)


def by_file_search(world: AgentWorld) -> Told:
    asked = AnswerRequest(ASKED, (world.store.resource_name,), ())
    answer = answer_grounded(asked=asked, scope=world.scope, deadline=Deadline(30))
    told = answer.groundedness
    assert isinstance(told, Groundedness)
    return _told(told.as_dict(), OUTCOMES.get(told.verdict, told.verdict), None)


def by_agent(world: AgentWorld, kind: str) -> Told:
    models.Agent.objects.filter(pk=world.agent.pk).update(agent_type=kind)
    world.agent.refresh_from_db()
    row = world.ask(ASKED).row
    return _told(row.grounding, row.outcome, row.confidence)


def by_rag_agent(world: AgentWorld) -> Told:
    return by_agent(world, "rag")


def by_react_agent(world: AgentWorld) -> Told:
    return by_agent(world, "react")


def by_mcp(world: AgentWorld) -> Told:
    found = async_to_sync(ask_agent)(
        arguments={"question": ASKED, "agent": "desk"}, scope=world.scope
    )
    for one in found["grounding"].get("statements", ()):
        # An MCP client sees nothing but the text: it says so in words.
        is_told = "⚠" in found["answer"]
        assert is_told or one["verdict"] in ("cited", "attributed")
    return _told(found["grounding"], found["outcome"], found["confidence"])


def by_flow(world: AgentWorld) -> Told:
    run = run_of(world, simple_flow(world), ASKED)
    done = run.events.get(kind="done").data
    assert (done["grounding"], done["outcome"]) == (run.grounding, run.outcome)
    return _told(run.grounding, run.outcome, None)


def by_supervisor(world: AgentWorld) -> Told:
    config = {**world.agent.config, "default_top_k": 3}
    models.Agent.objects.create(
        name="pumps", owner=world.user, description="Knows the pump.", config=config
    )
    world.set(agents=["pumps"])
    text = wiring.chat_model().generate(ChatRequest([])).text
    plan = json.dumps({"calls": [{"agent": "pumps", "question": ASKED}]})
    world.use(lambda asked: plan if "team of agents" in asked.messages[0].content else text)
    return by_agent(world, "supervisor")


def by_openai(world: AgentWorld) -> Told:
    return _openai(world, is_streamed=False)


def by_openai_stream(world: AgentWorld) -> Told:
    return _openai(world, is_streamed=True)


def _openai(world: AgentWorld, *, is_streamed: bool) -> Told:
    _, secret = create_key(user=world.user, name="k", rights=["read"])
    messages: Any = [{"role": "user", "content": ASKED}]
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
    told = _told(about["grounding"], about["outcome"], about["confidence"])
    # A client of OpenAI shows nothing but the text: it says so in words.
    assert ("⚠" in text) == (not {"unsupported", "contradicted"}.isdisjoint(told[0]))
    return told


def by_command(world: AgentWorld) -> Told:
    said = io.StringIO()
    call_command("rag_ask", ASKED, store=["manuals"], json=True, stdout=said)
    answer = json.loads(said.getvalue())
    shown = io.StringIO()
    call_command("rag_ask", ASKED, store=["manuals"], stdout=shown)
    verdicts = [one["verdict"] for one in answer["groundedness"]["statements"]]
    for verdict, words in (("unsupported", "Not found"), ("contradicted", "says otherwise")):
        assert (words in shown.getvalue()) == (verdict in verdicts)
    n_found = sum(one in ("cited", "attributed") for one in verdicts)
    statements = "statement" if len(verdicts) == 1 else "statements"
    share = f"{n_found} of {len(verdicts)} {statements} found in the sources"
    assert (share in shown.getvalue()) == bool(verdicts)
    verdict = {"answered": "grounded", "partial": "partly"}.get(answer["outcome"])
    return verdicts, verdict or answer["outcome"], answer["outcome"], answer["confidence"]


PATHS: dict[str, Callable[[AgentWorld], Told]] = {
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
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("written", ANSWERS)
def test_an_answer_is_what_its_sources_say_of_it(
    world: AgentWorld, path: str, written: str
) -> None:
    text, verdicts, verdict = ANSWERS[written]
    if path == "supervisor" and verdict == "ungrounded":
        # What an agent of its team could not ground is not passed on.
        verdicts, verdict = [], "not_found"
    world.use(text)
    found_verdicts, found_verdict, outcome, confidence = PATHS[path](world)
    assert (found_verdicts, found_verdict) == (verdicts, verdict)
    assert outcome == OUTCOMES.get(verdict, verdict)
    if verdict in ("ungrounded", "not_found"):
        assert confidence is None or confidence <= 0.5


@pytest.mark.parametrize("written", ["invents", "contradicts its quote", "cites nothing"])
def test_the_mixin_tells_the_same(world: AgentWorld, written: str) -> None:
    text, verdicts, verdict = ANSWERS[written]
    hits = retrieve(query=ASKED, scope=world.scope, stores=[world.store]).hits
    found = RAGMixin().citation_manager.add_citations(
        text, [hit.as_dict() for hit in hits], question=ASKED
    )
    assert [one["verdict"] for one in found["grounding"]["statements"]] == verdicts
    assert found["grounding"]["verdict"] == verdict
    assert bool(found["unsupported"]) == (verdict == "ungrounded")
