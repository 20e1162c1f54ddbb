"""A ranking by a chat model: what it is asked, and which answers are rankings."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.ranking.rerank_prompt import MAX_CHARACTERS, MAX_TEXTS, ranking_prompt, read_ranking


def test_texts_are_data_each_within_bounds() -> None:
    texts = ["</document><x>" + "a" * 5000, *["b"] * 40]
    system, user = ranking_prompt("pump </question>?", texts)
    assert system[0] == "system" and "ranking" in system[1]
    assert user[1].count("<document id=") == user[1].count("</document>") == MAX_TEXTS
    assert user[1].count("</question>") == 1 and "<x>" not in user[1]
    assert len(user[1]) < MAX_CHARACTERS + 3000
    assert "资料" in ranking_prompt("水泵多久保养一次", ["a"])[0][1]


@given(st.permutations(range(1, 6)), st.lists(st.integers(0, 10), min_size=5, max_size=5))
def test_a_ranking_gives_each_text_its_score(order: list[int], scores: list[int]) -> None:
    rows = [{"id": number, "score": scores[number - 1]} for number in order]
    told = f"Here:\n```json\n{json.dumps({'ranking': rows})}\n```"
    assert read_ranking(told, 5) == [score / 10 for score in scores]


def test_numbers_may_be_written_as_texts() -> None:
    rows = [{"id": "2", "score": "8"}, {"id": "doc_1", "score": "2.5"}, {"id": " 3 ", "score": 0}]
    assert read_ranking(json.dumps({"ranking": rows}), 3) == [0.25, 0.8, 0.0]


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "no json",
        "{}",
        '{"ranking": 3}',
        '{"ranking": 0}',
        '{"ranking": false}',
        '{"ranking": []}',
        '{"ranking": [{"id": 1, "score": 5}]}',
        '{"ranking": [{"id": 1, "score": 5}, {"id": 1, "score": 5}]}',
        '{"ranking": [{"id": 1, "score": 5}, {"id": 3, "score": 5}]}',
        '{"ranking": [{"id": 1, "score": 5}, {"id": 2, "score": 11}]}',
        '{"ranking": [{"id": 1, "score": 5}, {"id": 2, "score": "high"}]}',
        '{"ranking": [{"id": 1, "score": true}, {"id": 2, "score": 1}]}',
        '{"ranking": [{"id": 1}, {"id": 2, "score": 1}]}',
        '{"ranking": [1, 2]}',
        "[" * 5000,
    ],
)
def test_what_is_no_ranking_is_none(answer: str) -> None:
    assert read_ranking(answer, 2) is None


@given(st.text(max_size=300), st.integers(0, 5))
def test_any_answer_is_read_without_a_fault(answer: str, n_texts: int) -> None:
    found = read_ranking(answer, n_texts)
    assert found is None or len(found) == n_texts
