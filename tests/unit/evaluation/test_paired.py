"""Paired comparison of figures: the same question before and after."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.evals.metrics import MEASURES, mean_scores, score_each, score_rankings
from rag.evals.paired import compare_paired

shares = st.floats(0, 1).map(lambda value: round(value, 4))
pairs = st.lists(st.tuples(shares, shares), min_size=1, max_size=20)


def test_the_same_figures_differ_by_nothing() -> None:
    same = compare_paired([0.2, 0.5, 1.0], [0.2, 0.5, 1.0])
    assert (same.difference, same.p_value, same.low, same.high) == (0.0, 1.0, 0.0, 0.0)
    assert (same.n_better, same.n_worse, same.n_same) == (0, 0, 3)


def test_few_questions_are_tested_exactly() -> None:
    # Of 2^3 flips of three equal gains, all plus and all minus are as far from 0.
    assert compare_paired([0, 0, 0], [1, 1, 1]).p_value == 0.25
    assert compare_paired([0] * 6, [1] * 6).p_value == pytest.approx(2 / 64)
    assert compare_paired([0, 0, 1], [1, 1, 0]).p_value == 1.0


def test_one_clear_drop_over_many_questions_is_told_from_chance() -> None:
    before = [0.8 + 0.01 * (n % 7) for n in range(40)]
    worse = compare_paired(before, [value - 0.1 - 0.01 * (n % 3) for n, value in enumerate(before)])
    assert worse.difference == pytest.approx(-0.11, abs=0.01)
    assert worse.low <= worse.difference <= worse.high < 0
    assert worse.p_value < 0.001
    assert worse.is_significant
    noise = compare_paired(before, [v + (0.1 if n % 2 else -0.1) for n, v in enumerate(before)])
    assert noise.p_value > 0.5
    assert not noise.is_significant


def test_no_question_is_no_difference() -> None:
    assert compare_paired([], []).p_value == 1.0


def test_lists_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        compare_paired([1.0], [])


@given(pairs)
def test_the_comparison_is_the_same_each_time_and_mirrored_the_other_way(
    rows: list[tuple[float, float]],
) -> None:
    before, after = [row[0] for row in rows], [row[1] for row in rows]
    one = compare_paired(before, after)
    assert one == compare_paired(before, after)
    back = compare_paired(after, before)
    assert back.difference == pytest.approx(-one.difference, abs=2e-6)
    assert (back.n_better, back.n_worse) == (one.n_worse, one.n_better)
    assert 0 < one.p_value <= 1
    assert one.n_better + one.n_worse + one.n_same == len(rows)


def test_each_question_has_its_measures() -> None:
    judged = {"a": {"x": 1, "y": 1}, "b": {"z": 1}, "none": {"q": 0}}
    scores = score_each(judged, {"a": ["x", "n", "y"], "b": ["n"]})
    assert set(scores) == {"a", "b"}
    assert scores["a"]["R@1"] == 0.5
    assert scores["a"]["R@5"] == 1.0
    assert scores["a"]["MRR@10"] == 1.0
    assert scores["a"]["nDCG@10"] == pytest.approx((1 + 1 / 2) / (1 + 1 / 1.5849625), abs=1e-6)
    assert scores["b"] == dict.fromkeys(MEASURES, 0.0)
    assert mean_scores(scores)["R@5"] == 0.5


def test_no_question_has_no_means() -> None:
    assert mean_scores(score_each({}, {})) == {}


documents = st.sampled_from("abcdefgh")
judgements = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.dictionaries(documents, st.integers(0, 3), min_size=1),
    min_size=1,
).filter(lambda found: any(g for docs in found.values() for g in docs.values()))


@given(judgements, st.dictionaries(st.sampled_from(["q1", "q2"]), st.lists(documents, unique=True)))
def test_the_means_are_those_of_the_whole_set(
    judged: dict[str, dict[str, int]], rankings: dict[str, list[str]]
) -> None:
    means = mean_scores(score_each(judged, rankings))
    assert means == pytest.approx(score_rankings(judged, rankings), abs=1e-5)
