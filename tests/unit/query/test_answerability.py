"""The classifier says what hits can answer by what the search has, and says nothing beyond that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rag.core.analysis import Answerability, MissingTerm
from rag.core.hits import Hit, Leg
from rag.stages.query.answerability import (
    FEATURES,
    WEIGHTS,
    SearchEvidence,
    answerability_features,
    judge_answerability,
)

QUESTION = "How often is the pump serviced by the staff?"
TEXT = "The staff services the pump every 500 hours and the filter each week."


def hit(rank: int, *matched: str, text: str = TEXT, cosine: float | None = 0.5) -> Hit:
    leg = Leg(rank, 5.0) if matched else Leg(None, 0.0)
    return Hit(text=text, rank=rank, vector=Leg(rank, cosine), lexical=leg, matched_terms=matched)


def evidence(hits: list[Hit], *similar: float | None, query: str = QUESTION) -> SearchEvidence:
    return SearchEvidence(query=query, hits=hits, pool=hits, similarities=similar)


def verdict(found: SearchEvidence, *missing: MissingTerm) -> str:
    judged = judge_answerability(found, missing)
    return judged.verdict if judged else ""


def test_the_weights_are_those_of_the_features() -> None:
    cases: Any = json.loads(WEIGHTS.read_text(encoding="utf-8"))["cases"]
    for name, features in FEATURES.items():
        assert cases[name]["features"] == list(features)
        for head in ("answerable", "on_topic"):
            assert len(cases[name][head]["weights"]) == len(features)
            assert 0 < cases[name][head]["threshold"] < 1


def test_more_of_the_question_is_more_likely_an_answer() -> None:
    good = evidence([hit(1, "pump", "servic", "staff"), hit(2, "pump")], 1.0, 0.8)
    some = evidence([hit(1, "pump"), hit(2)], 0.8, 0.75)
    none = evidence([hit(1), hit(2)], 0.3, 0.2)
    assert [verdict(one) for one in (good, none)] == ["answerable", "off_topic"]
    likely = [judge_answerability(one) for one in (good, some, none)]
    values = [one.probability if one else 0.0 for one in likely]
    assert values == sorted(values, reverse=True) and values[0] > 0.9 > 0.1 > values[-1]


def test_a_statement_may_be_worded_further_from_its_hits_than_a_question() -> None:
    hits = [hit(1, "pump", "servic"), hit(2, "pump")]
    asked, said = (
        judge_answerability(evidence(hits, 0.8, 0.75, query=query))
        for query in (QUESTION, QUESTION.replace("How often is", "Each week").replace("?", "."))
    )
    assert asked and said and said.probability > asked.probability


@pytest.mark.parametrize(
    ("query", "is_question"),
    [
        (QUESTION, True),
        ("pump service interval?", True),
        ("what the pump needs", True),
        ("水泵多久保养一次", True),
        ("Cells which divide need what others have.", False),
        ("水泵每五百小时保养一次。", False),
    ],
)
def test_questions_are_told_from_statements(query: str, is_question: bool) -> None:
    values = answerability_features(evidence([hit(1)], 0.9, query=query)).values
    assert values["is_question"] == is_question


def test_no_hit_is_off_topic_and_what_is_missing_is_doubtful() -> None:
    assert verdict(evidence([])) == "off_topic"
    good = evidence([hit(1, "pump", "servic", "staff")], 1.0)
    missing = MissingTerm("HX-900", "HX-400")
    assert verdict(good, missing) == "doubtful"
    judged = judge_answerability(good, [missing])
    assert judged is not None and judged.most_confidence == 0.5
    assert judged.as_dict()["missing"] == [{"text": "HX-900", "nearest": "HX-400"}]


def test_without_similarities_words_alone_count_and_nothing_is_off_topic() -> None:
    good = evidence([hit(1, "pump", "servic", "staff")], None)
    assert answerability_features(good).case == "words"
    assert verdict(good) == "answerable"
    assert verdict(evidence([hit(1)], None)) == "doubtful"


@pytest.mark.parametrize(
    ("query", "text", "case"),
    [
        (QUESTION, "泵每五百小时由工作人员保养一次，滤网每周清洗。", "meaning"),
        ("泵多久保养一次？", TEXT, "meaning"),
        ("Combien de fois la pompe est-elle révisée ?", TEXT, "meaning"),
        (QUESTION, "La pompe est révisée toutes les 500 heures par le personnel.", "meaning"),
        ("泵多久保养一次？", "泵每五百小时保养一次。", "both"),
        (QUESTION, TEXT, "both"),
    ],
)
def test_question_and_hits_in_two_languages_are_judged_by_meaning(
    query: str, text: str, case: str
) -> None:
    found = evidence([hit(1, text=text)], 0.9, query=query)
    assert answerability_features(found).case == case
    if case == "meaning":
        unknown = evidence([hit(1, text=text)], None, query=query)
        assert judge_answerability(unknown) is None, "nothing can be told"


@pytest.mark.parametrize(
    ("way", "refused"),
    [("answer", ()), ("warn", ("off_topic",)), ("refuse", ("off_topic", "doubtful"))],
)
def test_the_settings_say_what_is_refused(way: str, refused: tuple[str, ...]) -> None:
    for name in ("answerable", "doubtful", "off_topic"):
        judged = Answerability(0.1, name)  # type: ignore[arg-type]  # one of the verdicts
        assert judged.is_refused(way) is (name in refused)
