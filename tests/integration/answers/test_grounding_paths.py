"""One answer over every path: what its sources do not say is nowhere taken for an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents import models
from agents.chat.mcp.tools import ask_agent
from agents.mixins import RAGMixin
from rag.core.deadline import Deadline
from rag.core.sources import AnswerRequest
from rag.core.types import Answer, Groundedness
from rag.services.answers import answer_grounded, ask, stream_ask
from rag.services.search import retrieve
from tests.integration.agent_world import QUOTE, AgentWorld, world
from tests.integration.flows.test_flow_cited import run_of, simple_flow

__all__ = ["world"]

ASKED = "How often is the pump serviced?"
CITE = f'<cite doc_id="doc_01" quote="{QUOTE}"></cite>'
# What a model writes: the verdict of each statement, and of the whole.
ANSWERS = {
    "invents": (
        "Every 999 days, according to the president of Mars.",
        ["unsupported"],
        "ungrounded",
    ),
    "contradicts its quote": (f"The pump needs no service.{CITE}", ["contradicted"], "ungrounded"),
    "cites nothing": (QUOTE, ["attributed"], "grounded"),
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
    run = run_of(world, simple_flow(world))
    done = run.events.get(kind="done").data
    assert (done["grounding"], done["outcome"]) == (run.grounding, run.outcome)
    return _told(run.grounding, run.outcome, None)


PATHS: dict[str, Callable[[AgentWorld], Told]] = {
    "ask": by_ask,
    "streamed ask": by_stream,
    "Gemini-shaped": by_file_search,
    "rag agent": by_rag_agent,
    "react agent": by_react_agent,
    "MCP": by_mcp,
    "flow": by_flow,
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("written", ANSWERS)
def test_an_answer_is_what_its_sources_say_of_it(
    world: AgentWorld, path: str, written: str
) -> None:
    text, verdicts, verdict = ANSWERS[written]
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
    found = RAGMixin().citation_manager.add_citations(text, [hit.as_dict() for hit in hits])
    assert [one["verdict"] for one in found["grounding"]["statements"]] == verdicts
    assert found["grounding"]["verdict"] == verdict
    assert bool(found["unsupported"]) == (verdict == "ungrounded")
