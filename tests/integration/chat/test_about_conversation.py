"""Requests about the conversation: answered from it, with quotes that are looked up again."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync

from agents.chat.agents.agent import agent_for
from agents.chat.pipelines.conversation import MAX_ANSWERS
from rag.models import File
from tests.integration.agent_world import CITED, QUOTE, TEXTS, AgentWorld, Told, world

__all__ = ["world"]


def talk(world: AgentWorld, *messages: str) -> Told:
    told = world.ask(messages[0])
    for message in messages[1:]:
        told = world.ask(message, session=told.events[0].data["session"])
    return told


def verdicts(told: Told) -> list[str]:
    return [one["verdict"] for one in told.row.citations]


def test_without_a_model_the_quotes_are_shown_in_the_form_asked_for(world: AgentWorld) -> None:
    told = talk(world, "How often is the pump serviced?", "as a table")
    assert told.text.splitlines()[:2] == ["| Content | Question |", "| --- | --- |"]
    assert f"| {QUOTE}[1] | How often is the pump serviced? |" in told.text
    assert set(verdicts(told)) == {"verified"} and told.row.outcome == "answered"
    assert not told.of("rewrite"), "nothing is searched for"
    steps = [one["step"] for one in told.of("step")]
    assert "converse" in steps and "search" not in steps


def test_a_summary_has_a_quote_for_each_question(world: AgentWorld) -> None:
    told = talk(
        world,
        "How often is the pump serviced?",
        "谢谢",
        "Until when are seeds borrowed from the library?",
        "总结一下我们刚才聊的内容",
    )
    lines = told.text.splitlines()
    assert lines[0].startswith("- How often is the pump serviced?") and QUOTE in lines[0]
    assert TEXTS[3] in lines[1] and len(lines) == 2
    assert verdicts(told) == ["verified"] * 2 and len(lines) <= MAX_ANSWERS


def test_what_needs_a_writer_says_so_and_shows_what_it_rests_on(world: AgentWorld) -> None:
    told = talk(world, "How often is the pump serviced?", "translate your answer into Chinese")
    assert "No model that writes is configured" in told.text and QUOTE in told.text
    assert set(verdicts(told)) == {"verified"}


def test_shorter_is_the_first_quote(world: AgentWorld) -> None:
    told = talk(world, "How often is the pump serviced?", "make it shorter")
    assert told.text == f"{QUOTE}[1]"


def test_a_model_is_given_the_answers_and_what_they_cite(world: AgentWorld) -> None:
    def answer(request: Any) -> str:
        if "<conversation>" not in request.messages[-1].content:
            return CITED
        return f'<cite doc_id="doc_01" quote="{QUOTE}">每 30 天维护一次。</cite>'

    chat = world.use(answer)
    told = talk(world, "How often is the pump serviced?", "把你的回答翻译成中文")
    assert told.text == "每 30 天维护一次。[1]" and verdicts(told) == ["verified"]
    shown = chat.requests[-1].messages[-1].content
    assert QUOTE in shown and "Every 30 days." in shown and "翻译成中文" in shown
    assert len(chat.requests[-1].messages) == 2, "however many turns the config shows"


def test_a_quote_that_a_model_makes_up_is_none(world: AgentWorld) -> None:
    def answer(request: Any) -> str:
        forged = '<cite doc_id="doc_01" quote="The pump is never serviced.">Never.</cite>'
        return forged if "<conversation>" in request.messages[-1].content else CITED

    world.use(answer)
    told = talk(world, "How often is the pump serviced?", "make it shorter")
    assert "verified" not in verdicts(told)


def test_what_may_not_be_read_any_more_is_not_repeated(world: AgentWorld) -> None:
    told = world.ask("How often is the pump serviced?")
    world.agent.config = {**world.agent.config, "min_confidence_score": 0.1}
    File.objects.get(name="pump manual.txt").delete()
    told = world.ask("repeat that", session=told.events[0].data["session"])
    assert QUOTE not in told.text


def test_a_conversation_without_rows_is_answered_by_what_its_question_finds(
    world: AgentWorld,
) -> None:
    chat = world.use(CITED)
    agent = agent_for(agent=world.agent, scope=world.scope, stores=[world.store])
    history: Any = [
        {"role": "user", "content": "How often is the pump serviced?"},
        {"role": "assistant", "content": "Every 30 days."},
    ]
    answer = async_to_sync(agent.generate)("shorter please", history)
    assert answer.citations[0]["verdict"] == "verified"
    assert "Every 30 days." in chat.requests[-1].messages[-1].content


def test_nothing_was_said_yet(world: AgentWorld) -> None:
    told = world.ask("make it shorter")
    assert "converse" not in [one["step"] for one in told.of("step")]
