"""An agent tells what its stores do not hold: before the model is asked, in the reader's language."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import DIM
from tests.integration.agent_world import CITED, AgentWorld, world

__all__ = ["world"]
OFF_TOPIC = "Who won the chess championship in the capital of the neighbouring country?"
UNKNOWN = "How often is the pump HX-900 serviced by the maintenance team?"


@pytest.fixture(autouse=True)
def _calibrated(world: AgentWorld, settings: Any) -> None:
    scale = [[0.0, 0.0], [0.35, 0.5], [0.4, 0.7], [0.7, 1.0]]
    settings.RAG = {**settings.RAG, "LIKENESS": {f"words:{DIM}": scale}}


def test_what_the_stores_are_not_about_is_refused(world: AgentWorld) -> None:
    chat = world.use(CITED)
    told = world.ask(OFF_TOPIC)
    assert told.row.outcome == "not_found" and chat.requests == []
    assert told.text.startswith("I do not know") and told.of("sources")[0]["sources"]
    assert (told.row.confidence or 0.0) <= 0.2


def test_answering_anyway_asks_the_model(world: AgentWorld) -> None:
    chat = world.use(CITED)
    world.set(unanswerable="answer", min_confidence_score=0.0)
    assert world.ask(OFF_TOPIC).row.outcome != "not_found" and len(chat.requests) == 1


def test_a_code_that_no_document_mentions_is_a_notice(world: AgentWorld) -> None:
    chat = world.use(CITED)
    told = world.ask(UNKNOWN)
    assert len(chat.requests) == 1 and (told.row.confidence or 1.0) <= 0.5
    assert "HX-900 does not occur in these documents." in [
        notice.get("text") for notice in told.of("notice")
    ]
    assert any("HX-900" in notice.get("text", "") for notice in told.row.notices)


def test_who_wants_no_doubt_gets_a_refusal_that_names_it(world: AgentWorld) -> None:
    chat = world.use(CITED)
    world.set(unanswerable="refuse")
    told = world.ask(UNKNOWN)
    assert told.row.outcome == "not_found" and chat.requests == []
    assert "HX-900 does not occur in these documents." in told.text


def test_a_right_question_has_no_notice(world: AgentWorld) -> None:
    world.use(CITED)
    told = world.ask("How often is the pump serviced by the maintenance team?")
    assert told.row.outcome == "answered" and told.of("notice") == []
