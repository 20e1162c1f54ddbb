"""The turns that a client sends: found again where they were held, written down where not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents import models
from agents.chat.history.history import history_before
from agents.chat.openai.completion_request import MAX_WRITTEN, find_parent
from agents.core.state import Turn
from rag.core.access import Scope
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


def turns(*texts: str) -> list[Turn]:
    return [
        {"role": "assistant" if number % 2 else "user", "content": text}
        for number, text in enumerate(texts)
    ]


@pytest.fixture
def scope() -> Scope:
    return Scope(user_id=UserFactory().pk)


@pytest.fixture
def agent() -> models.Agent:
    return models.Agent.objects.create(name="desk")


def test_the_first_question_has_no_parent(agent: models.Agent, scope: Scope) -> None:
    assert find_parent(agent=agent, scope=scope, turns=[]) == ""
    assert not models.Session.objects.exists()


def test_turns_that_were_held_elsewhere_are_written_down_once(
    agent: models.Agent, scope: Scope
) -> None:
    said = turns("Hello there", "Hi.", "And the pump?", "It runs.")
    key = find_parent(agent=agent, scope=scope, turns=said)
    message = models.Message.objects.get(key=key)
    assert message.session.head == message and message.session.title == "Hello there"
    question = models.Message.objects.create(
        session=message.session, parent=message, role="user", content="Now?"
    )
    assert history_before(message=question) == (said, "")
    assert find_parent(agent=agent, scope=scope, turns=said) == key
    assert models.Session.objects.count() == 1


def test_footnotes_are_no_part_of_what_was_said(agent: models.Agent, scope: Scope) -> None:
    said = turns("Hello", "Yes.[1]")
    key = find_parent(agent=agent, scope=scope, turns=said)
    noted = turns("Hello", "Yes.[1]\n\n---\n[1] a.txt, p. 1: “Yes”")
    assert find_parent(agent=agent, scope=scope, turns=noted) == key


def test_a_branch_is_found_by_all_that_led_to_it(agent: models.Agent, scope: Scope) -> None:
    first = find_parent(agent=agent, scope=scope, turns=turns("A", "Same."))
    second = find_parent(agent=agent, scope=scope, turns=turns("B", "Same."))
    assert first != second
    assert find_parent(agent=agent, scope=scope, turns=turns("A", "Same.")) == first
    assert find_parent(agent=agent, scope=scope, turns=turns("A", "Same. ")) not in (first, second)


def test_nobody_elses_conversation_goes_on(agent: models.Agent, scope: Scope) -> None:
    said = turns("Hello", "Hi.")
    mine = find_parent(agent=agent, scope=scope, turns=said)
    others: list[Any] = [
        (agent, Scope(user_id=UserFactory().pk)),
        (agent, replace(scope, only_store_ids=frozenset({1}))),
        (models.Agent.objects.create(name="other"), scope),
    ]
    found = {find_parent(agent=one, scope=who, turns=said) for one, who in others}
    assert len(found) == 3 and mine not in found
    limited = models.Session.objects.get(only_store_ids__isnull=False)
    assert limited.only_store_ids == [1]


def test_an_answer_that_is_being_written_is_not_gone_on_from(
    agent: models.Agent, scope: Scope
) -> None:
    said = turns("Hello", "Hi.")
    key = find_parent(agent=agent, scope=scope, turns=said)
    models.Message.objects.filter(key=key).update(status="running")
    assert find_parent(agent=agent, scope=scope, turns=said) != key


def test_of_long_conversations_the_newest_turns_are_kept(agent: models.Agent, scope: Scope) -> None:
    said = turns(*(f"text {number}" for number in range(120)))
    key = find_parent(agent=agent, scope=scope, turns=said)
    session = models.Message.objects.get(key=key).session
    assert session.messages.count() == MAX_WRITTEN
    assert session.messages.order_by("pk")[0].content == "text 70"
    assert find_parent(agent=agent, scope=scope, turns=said) == key


def test_the_end_of_a_conversation_alone_does_not_open_all_of_it(
    agent: models.Agent, scope: Scope
) -> None:
    whole = find_parent(agent=agent, scope=scope, turns=turns("I am Ann.", "Hi.", "Bye", "Bye."))
    end = find_parent(agent=agent, scope=scope, turns=turns("Bye", "Bye."))
    assert end != whole
    question = models.Message.objects.get(key=end)
    assert [turn["content"] for turn in history_before(message=question)[0]] == ["Bye"]


def test_spaces_around_a_question_begin_no_new_conversation(
    agent: models.Agent, scope: Scope
) -> None:
    # As a question is written down when it is asked here.
    session = models.Session.objects.create(agent=agent, user_id=scope.user_id)
    asked = models.Message.objects.create(session=session, role="user", content="Which pump?")
    answer = models.Message.objects.create(
        session=session, parent=asked, role="assistant", content=" The red one. "
    )
    said = turns(" Which pump?\n", " The red one. ")
    assert find_parent(agent=agent, scope=scope, turns=said) == str(answer.key)
    assert models.Session.objects.count() == 1
