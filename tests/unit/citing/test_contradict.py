"""Numbers, denials and opposites that part a claim from its source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.citing.contradict import contradiction

AGAINST = [
    # Its words stand within the source, where they are denied.
    ("需要校准。", "液位传感器不需要校准。"),
    ("open the blue valve", "Never open the blue valve."),
    ("15 minutes", "Wait 115 minutes."),
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
    assert contradiction(claim, source)


@pytest.mark.parametrize(("claim", "source"), WITH)
def test_a_claim_that_says_the_same_passes(claim: str, source: str) -> None:
    assert not contradiction(claim, source)


def test_what_stands_elsewhere_in_the_source_counts_for_the_claim_only() -> None:
    around = "The valve is open. It is not blue. It has 5 bolts."
    assert not contradiction("The valve with 5 bolts is open.", "The valve is open.", around)
    assert contradiction("The valve with 6 bolts is open.", "The valve is open.", around)
    assert contradiction("The valve is blue.", "It is not blue.", around)


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("The interval is 90 days.", "每 180 天校准一次。"),
        ("容积为 12 升。", "The tank holds 15 litres."),
        ("HX-900 的容积为 12 升。", "The HX-400 holds 12 l."),
        ("It was built on March 5, 2024.", "建于2024年3月6日。"),
        ("Sales grew by 12 %.", "销售额增长百分之十五。"),
    ],
)
def test_numbers_dates_and_codes_are_compared_across_languages(claim: str, source: str) -> None:
    assert contradiction(claim, source)


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("The interval is 180 days.", "每 180 天校准一次。"),
        ("It does not need anything.", "每 180 天校准一次。"),
        ("It was built on March 5, 2024.", "建于2024年3月5日。"),
        ("Sales grew by 15 %.", "销售额增长百分之十五。"),
        ("Both pumps cost £30m.", "两台水泵共 3000 万英镑。"),
        ("Between 1623 and 1625 one in ten died.", "1623-25 年间十分之一的人死亡。"),
        ("他赢得第 33 届超级碗。", "He won Super Bowl XXXIII."),
        ("建于16世纪的城堡有 2 座塔。", "The 16th-century castle has a pair of towers."),
        ("时速可达 120 英里。", "It does 120mph."),
        ("该镇在19世纪发展起来。", "The town grew in the 1800s."),
        ("人口为 3 亿 2000 万。", "It has 320 million people."),
        ("They sold 5 million.", "他们卖出了 5 百万台。"),
        ("The 2-point attempt failed.", "两分转换失败。"),
        ("其中 50% 失败。", "Half of them failed."),
        ("未来 10 年内不太可能。", "It is not likely for a decade or more."),
        ("A graph of 2005 (2005) of the Ninth.", "2005年的图表（2005年）属于第九任。"),
    ],
)
def test_what_survives_translation_is_not_doubted(claim: str, source: str) -> None:
    assert not contradiction(claim, source)


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("It may be opened after it has cooled.", "Do not open it before it has cooled."),
        ("It takes 5 minutes.", "It does not require tools and takes 5 minutes."),
        ("It takes 2 hours.", "It takes 120 minutes."),
        ("The tank holds about 3.3 m.", "The tank holds 3.28 m."),
        ("At most 5 people may enter.", "No more than 5 people may enter."),
        ("至少需要 3 人。", "不得少于 3 人。"),
        ("最多 5 人。", "不超过 5 人。"),
        ("员工必须佩戴手套。", "员工不得不佩戴手套。"),
        ("1. Wait 15 minutes.", "Wait 15 minutes."),
        ("Air the room after a lamp broke.", "Air the room before anybody works there again."),
        ("在断电之后通风。", "在有人进入之前通风。"),
        ("All go out when the horn goes off.", "All leave at the horn, and nobody goes back."),
    ],
)
def test_other_words_for_the_same_are_not_doubted(claim: str, source: str) -> None:
    assert not contradiction(claim, source)


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_raises_and_none_contradicts_itself(one: str, other: str) -> None:
    contradiction(one, other, one + other)
    assert contradiction(one, one) == ""
    assert contradiction(one, f"{other}\n{one}") == ""
