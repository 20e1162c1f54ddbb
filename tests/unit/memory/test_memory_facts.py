"""Facts in a person's words, subjects, budgets: by rules, whatever is said."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.chat.memory.facts import (
    MAX_ANSWER,
    MAX_FACTS,
    MAX_QUESTION,
    extract_facts,
    facts_prompt,
    make_episode,
    memory_key,
    parse_facts,
    states_fact,
    storable_text,
)
from agents.core.recalled_memory import RecalledMemory, within_budget
from rag.stages.text.secrets import mentions_secret


@pytest.mark.parametrize(
    ("said", "facts"),
    [
        ("My pump is an HX-400. How often is it serviced?", {"pump": "My pump is an HX-400"}),
        ("我们的水泵是HX-400。多久保养一次？", {"水泵": "我们的水泵是HX-400"}),
        ("请记住：门店五点关门", {"门店五点关门": "门店五点关门"}),
        (
            "Please remember that the shop closes at 5.",
            {"the shop closes at 5": "the shop closes at 5"},
        ),
        ("我叫王伟", {"name": "我叫王伟"}),
        ("My name is Wei! I'm a plumber.", {"name": "My name is Wei", "self": "I'm a plumber"}),
        ("I work at Acme 2.0 in Berlin.", {"work at": "I work at Acme 2.0 in Berlin"}),
        ("我住在深圳，负责三号楼", {"住": "我住在深圳，负责三号楼"}),
        ("I prefer short answers", {"i prefer short answers": "I prefer short answers"}),
        ("我喜欢简短的回答", {"我喜欢简短的回答": "我喜欢简短的回答"}),
        ("Remember my pump is red. Remember my pump is blue.", {"pump": "my pump is blue"}),
        ("Which pump do we use? Is my pump old?", {}),
        ("我的保修期是多久？", {}),
        ("My question is about seals.", {}),
        ("The pump is serviced every 30 days.", {}),
        ("my password is hunter2", {}),
        ("记住我的银行卡号是 6222020200112233445", {}),
        ("Remember: " + "x " * 200, {}),
    ],
)
def test_what_is_said_outright_is_a_fact(said: str, facts: dict[str, str]) -> None:
    assert {fact.subject: fact.text for fact in extract_facts(said)} == facts


@pytest.mark.parametrize(
    ("said", "tells"),
    [
        ("How often is the pump serviced?", False),
        ("水泵多久保养一次？", False),
        ("Can you help me?", False),
        ("I moved to Bonn", True),
        ("我换了新泵。多久保养？", True),
        ("Remember the code name", True),
        ("", False),
    ],
)
def test_a_model_is_only_asked_where_somebody_tells_of_themselves(said: str, tells: bool) -> None:
    assert states_fact(said) is tells


@given(st.text(max_size=600))
def test_any_text_gives_few_storable_facts(said: str) -> None:
    facts = extract_facts(said)
    assert len(facts) <= MAX_FACTS
    for fact in facts:
        assert fact.subject == memory_key(fact.subject) or len(fact.subject) <= 200
        assert fact.text == storable_text(fact.text) and not mentions_secret(fact.text)
        assert states_fact(said)


def test_a_models_facts_are_checked_one_by_one() -> None:
    answer = """Here: ```json
    {"facts": [{"subject": " Pump! ", "text": "It is\\n red.", "replaces": [1, 2, 9, "x", true]},
      {"text": "No subject here."}, {"subject": "a", "text": ""}, {"subject": "a"}, 5,
      {"subject": "key", "text": "The password is x."},
      {"subject": "Password", "text": "hunter2"}], "outdated": [2, 0, -1, 3]}
    ```"""
    read = parse_facts(answer, 2)
    assert read is not None
    facts, outdated = read
    assert [(fact.subject, fact.text, fact.replaces) for fact in facts] == [
        ("pump", "It is red.", (1, 2)),
        ("no subject here", "No subject here.", ()),
    ]
    assert outdated == (2,)
    written = '{"facts": [{"text": "It is red.", "replaces": ["1", "x"]}], "outdated": ["2"]}'
    ((fact,), outdated) = parse_facts(written, 2) or ((), ())
    assert (fact.replaces, outdated) == ((1,), (2,))
    for wrong in ("", "no", "[]", '{"facts": {}}', '{"fact": []}'):
        assert parse_facts(wrong, 2) is None
    assert parse_facts('{"facts": [], "outdated": "all"}', 2) == ([], ())


@given(
    st.text(max_size=300),
    st.lists(st.tuples(st.text(max_size=40), st.text(max_size=80)), max_size=4),
)
def test_nothing_leaves_its_element_in_the_prompt(said: str, known: Any) -> None:
    _, data = facts_prompt(said, known)
    assert data.count("<said>") == data.count("</said>") == data.count("<known>") == 1
    assert data.count("<fact ") == data.count("</fact>") == len(known)


@given(st.text(max_size=2000))
def test_a_subject_is_short_and_stays_itself(text: str) -> None:
    subject = memory_key(text)
    assert len(subject) <= 200 and "\0" not in subject
    assert memory_key(subject) == subject or len(text) > 200
    assert memory_key(text.upper()) == memory_key(text.upper().lower()) or not text.isascii()


def test_an_exchange_is_cut_and_cleaned() -> None:
    episode = make_episode("How\n old? " + "x" * 2000, "Two[1] years[12].\0" + "y" * 3000)
    assert episode is not None
    assert episode.question.startswith("How old? x") and len(episode.question) == MAX_QUESTION
    assert episode.answer.startswith("Two years.y") and len(episode.answer) == MAX_ANSWER
    assert make_episode("?!", "x") is None and make_episode("my password?", "x") is None
    assert make_episode("Which one?", "Your token is x.") is None
    first, second = make_episode("How old?", "a"), make_episode("how OLD", "b")
    assert first and second and first.subject == second.subject


def words(text: str) -> int:
    return len(text.split())


@given(
    st.lists(st.tuples(st.text(max_size=60), st.text(max_size=200)), max_size=8), st.integers(0, 60)
)
def test_what_is_told_holds_its_budget_in_order(told: list[tuple[str, str]], limit: int) -> None:
    memories = [RecalledMemory(str(n), "episodic", q, a) for n, (q, a) in enumerate(told)]
    kept = within_budget(memories, limit, words)
    assert sum(words(one.text) + words(one.answer) for one in kept) <= limit + len(kept)
    assert [one.key for one in kept] == sorted((one.key for one in kept), key=int)
    for one in kept:
        whole = memories[int(one.key)]
        assert one.text == whole.text
        assert one.answer == whole.answer or one.answer == "" or one.answer.endswith("…")


def test_a_memory_is_json() -> None:
    at = datetime(2026, 11, 28, tzinfo=UTC)
    told = RecalledMemory("k", "semantic", "Red.", score=0.12345, at=at, project="p").as_dict()
    assert told == {
        "id": "k",
        "kind": "semantic",
        "text": "Red.",
        "answer": "",
        "score": 0.123,
        "project": "p",
        "at": "2026-11-28T00:00:00+00:00",
    }
