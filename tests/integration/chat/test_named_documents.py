"""An agent asked for a document, page or section answers from it, whatever is like the question."""

from __future__ import annotations

from agents import models
from tests.integration.agent_world import CITED, QUOTE, TEXTS, AgentWorld, world

__all__ = ["world"]


def test_a_page_is_read_whole_past_thresholds_and_ranking(world: AgentWorld) -> None:
    world.set(vector_threshold=0.9, min_confidence_score=0.9, enable_rerank=True)
    told = world.ask("What is on page 3 of the pump manual?")
    assert TEXTS[2] in told.text and told.row.outcome == "answered"
    assert {one["verdict"] for one in told.row.citations} == {"verified"}
    assert [one["content"] for one in told.of("sources")[-1]["sources"]] == [TEXTS[2]]


def test_a_model_is_shown_the_document_that_is_named(world: AgentWorld) -> None:
    chat = world.use(CITED)
    for kind in ("rag", "react"):
        models.Agent.objects.filter(pk=world.agent.pk).update(agent_type=kind)
        world.agent.refresh_from_db()
        world.ask("summarize the pump manual")
        request = chat.requests[-1]
        shown = request.messages[-1].content
        assert all(text in shown for text in TEXTS[:3]) and TEXTS[3] not in shown
        assert QUOTE in shown
        # For models that answer with the document's outline.
        assert len(request.headings) == len(request.passages) == 3


def test_a_document_that_is_not_there_is_told(world: AgentWorld) -> None:
    told = world.ask("summarize the fire manual")
    notices = [one.get("text", "") for one in told.of("notice")]
    assert "There is no file called “fire manual”." in notices


def test_a_follow_up_stays_with_the_document(world: AgentWorld) -> None:
    world.set(enable_query_rewrite=True)
    first = world.ask("总结《pump manual》")
    told = world.ask("第三页讲了什么？", session=first.events[0].data["session"])
    assert told.row.query == "《pump manual》：第三页讲了什么？"
    assert TEXTS[2] in told.text and TEXTS[3] not in told.text
