"""Numbers, denials and opposites that part a claim from its source."""

from __future__ import annotations

import pytest

from rag.stages.citing.attribute import contradicts

AGAINST = [
    ("Wait 50 minutes.", "Wait 15 minutes."),
    ("It takes 5 to 5 days.", "It takes 5 to 9 days."),
    ("Pay 1.5 yuan.", "Pay 15 yuan."),
    ("等待五十分钟。", "等待十五分钟。"),
    ("见第三章。", "见第五章。"),
    ("The valve is not open.", "The valve is open."),
    ("The valve is open.", "The valve isn't open."),
    ("You can smoke here.", "You cannot smoke here."),
    ("滤网得清洗。", "滤网不得清洗。"),
    ("他没有来。", "他来了。"),
    ("温度在 5 度以上。", "温度在 5 度以下。"),
    ("Close it before lunch.", "Close it after lunch."),
    ("销量增加了。", "销量减少了。"),
    ("It is the largest city.", "It is the smallest city."),
]
WITH = [
    ("Wait 15 minutes.", "Wait 15 minutes, or 20."),
    ("Pay 1,000 yuan.", "Pay 1000 yuan."),
    ("Pay １５ yuan.", "Pay 15 yuan."),
    ("不仅如此，水泵还停了。", "此外水泵停了。"),
    ("水泵可能未来会停。", "水泵以后会停。"),
    ("The valve is never open.", "The valve is not open."),
    ("Close it before lunch.", "Close it before lunch and after dinner."),
    ("", ""),
]


@pytest.mark.parametrize(("claim", "source"), AGAINST)
def test_a_claim_that_says_something_else_is_told(claim: str, source: str) -> None:
    assert contradicts(claim, source, source)


@pytest.mark.parametrize(("claim", "source"), WITH)
def test_a_claim_that_says_the_same_passes(claim: str, source: str) -> None:
    assert not contradicts(claim, source, source)


def test_what_stands_elsewhere_in_the_source_counts_for_the_claim_only() -> None:
    around = "The valve is open. It is not blue. It has 5 bolts."
    assert not contradicts("The valve is open.", "The valve is open.", around)
    assert not contradicts("The valve with 5 bolts is open.", "The valve is open.", around)
    assert contradicts("The valve is blue.", "It is not blue.", around)
