"""Retrieval metrics: values worked out by hand, and what cannot be measured."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import InvalidInputError
from rag.evals.metrics import MEASURES, score_rankings


def test_a_perfect_ranking_scores_one_everywhere() -> None:
    found = score_rankings({"q": {"a": 1}}, {"q": ["a", "b"]})
    assert found == dict.fromkeys(MEASURES, 1.0)


def test_the_second_place_counts_as_the_definitions_say() -> None:
    found = score_rankings({"q": {"a": 1}}, {"q": ["b", "a"]})
    assert found["R@1"] == 0.0
    assert found["R@5"] == 1.0
    assert found["MRR@10"] == 0.5
    assert found["nDCG@10"] == pytest.approx(1 / math.log2(3), abs=1e-4)


def test_recall_is_the_share_of_the_relevant_documents() -> None:
    found = score_rankings({"q": {"a": 1, "b": 1, "c": 1, "d": 1}}, {"q": ["a", "x", "b"]})
    assert found["R@1"] == 0.25
    assert found["R@5"] == 0.5


def test_grades_weigh_in_ndcg() -> None:
    grades = {"q": {"good": 2, "fair": 1}}
    best = score_rankings(grades, {"q": ["good", "fair"]})["nDCG@10"]
    swapped = score_rankings(grades, {"q": ["fair", "good"]})["nDCG@10"]
    assert best == 1.0
    assert swapped == pytest.approx((1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3)), abs=1e-4)


def test_places_beyond_the_tenth_do_not_count() -> None:
    ranking = [*map(str, range(10)), "a"]
    assert score_rankings({"q": {"a": 1}}, {"q": ranking}) == dict.fromkeys(MEASURES, 0.0)


def test_figures_are_means_over_the_judged_queries() -> None:
    judged = {"one": {"a": 1}, "two": {"b": 1}}
    found = score_rankings(judged, {"one": ["a"], "two": ["x"], "unjudged": ["y"]})
    assert found["R@1"] == 0.5


def test_a_judged_query_without_a_ranking_counts_as_a_miss() -> None:
    assert score_rankings({"one": {"a": 1}, "two": {"b": 1}}, {"one": ["a"]})["R@10"] == 0.5


def test_no_ranking_at_all_scores_zero() -> None:
    assert score_rankings({"q": {"a": 1}}, {}) == dict.fromkeys(MEASURES, 0.0)


def test_a_query_without_a_relevant_document_is_left_out() -> None:
    judged = {"one": {"a": 1}, "none": {"b": 0}}
    assert score_rankings(judged, {"one": ["a"], "none": ["b"]})["R@1"] == 1.0


def test_order_decides_not_the_documents_names() -> None:
    up = score_rankings({"q": {"a": 1}}, {"q": ["a", "b", "c"]})
    down = score_rankings({"q": {"c": 1}}, {"q": ["c", "b", "a"]})
    assert up == down == dict.fromkeys(MEASURES, 1.0)


def test_nothing_relevant_is_an_error_that_says_where_to_look() -> None:
    with pytest.raises(InvalidInputError, match=r"qrels\.tsv"):
        score_rankings({"q": {"a": 0}}, {"q": ["a"]})


def test_a_repeated_document_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="q7 repeats"):
        score_rankings({"q7": {"a": 1}}, {"q7": ["b", "b"]})


documents = st.lists(st.sampled_from("abcdefghijklmnop"), unique=True, max_size=14)


@given(documents, st.sets(st.sampled_from("abcdefghijklmnop"), min_size=1))
def test_figures_follow_their_definitions(ranking: list[str], relevant: set[str]) -> None:
    found = score_rankings({"q": dict.fromkeys(relevant, 1)}, {"q": ranking})
    places = [i for i, document in enumerate(ranking[:10]) if document in relevant]
    gain = sum(1 / math.log2(i + 2) for i in places)
    ideal = sum(1 / math.log2(i + 2) for i in range(min(10, len(relevant))))
    assert found["R@10"] == pytest.approx(len(places) / len(relevant), abs=1e-5)
    assert found["MRR@10"] == pytest.approx(1 / (places[0] + 1) if places else 0, abs=1e-5)
    assert found["nDCG@10"] == pytest.approx(gain / ideal, abs=1e-5)
    assert found["R@1"] <= found["R@5"] <= found["R@10"]
