"""Coverage: what a source does not have is one long stretch or a clause of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.citing.attribute import claim_grams
from rag.stages.citing.coverage import CoverageLimits, uncovered_parts
from rag.stages.citing.verify import verify_answer
from tests.unit.passages import make_passages

SOURCE = "Wait 15 minutes until the motor of the pump is cool, then restart it with the green key."
CHINESE = "水泵过热时应等待十五分钟，让电机冷却以后再用绿色钥匙重新启动。"
LIMITS = CoverageLimits(stretch=2.5, clause=2)


def parts(claim: str) -> list[str]:
    source = SOURCE if claim.isascii() else CHINESE
    return list(uncovered_parts(claim, claim_grams(source), LIMITS))


@pytest.mark.parametrize(
    ("claim", "part"),
    [
        ("Wait until the motor is cool, by order of the mayor.", "order of the mayor"),
        ("Wait until the motor is cool because a factory burnt down.", "factory burnt"),
        ("A retired dentist in a kayak restarts the pump with the green key.", "kayak"),
        ("等待十五分钟，让电机冷却，这是市长的命令。", "市长的命令"),
        ("等待十五分钟让电机冷却并且由保险公司承担费用。", "由保险公司承担费用"),
    ],
)
def test_an_invented_part_is_found(claim: str, part: str) -> None:
    assert any(part in found for found in parts(claim))


@pytest.mark.parametrize(
    "claim",
    [
        SOURCE,
        CHINESE,
        "The motor has to cool for fifteen minutes before the pump is restarted.",
        "According to the document, restart the pump with the green key.",
        "Once it is cool, after about a quarter of an hour, the green key restarts the pump.",
        "根据资料，应等待 15 分钟，电机冷却后再启动水泵。",
        "启动要用绿色的钥匙，水泵过热时先等十五分钟。",
        "",
    ],
)
def test_other_words_for_the_same_are_no_part(claim: str) -> None:
    assert parts(claim) == []


def test_too_few_of_its_words_leave_all_of_a_short_claim_uncovered() -> None:
    limits = CoverageLimits(stretch=2.5, clause=2, share=0.6)
    for claim in ("The pump explodes.", "水泵爆炸。"):
        source = claim_grams(SOURCE if claim.isascii() else CHINESE)
        assert list(uncovered_parts(claim, source, limits)) == [claim]


@given(st.text(max_size=200), st.text(max_size=200))
def test_parts_stand_in_the_claim_and_none_is_missing_in_itself(claim: str, source: str) -> None:
    assert all(part in claim for part in uncovered_parts(claim, claim_grams(source), LIMITS))
    assert list(uncovered_parts(claim, claim_grams(claim), LIMITS)) == []


def test_what_lacks_the_subject_of_a_statement_does_not_say_it_elsewhere() -> None:
    rules = "Gas burners are allowed in the Glass Loft kitchen only. Others cook outside."
    drones = "Commercial filming costs 900 yuan. Drones are never allowed under the roof."
    for claim in ("Yes, drones are allowed in the greenhouse.", "Cats are allowed in the house."):
        (told,) = verify_answer(claim, make_passages(rules, drones)).groundedness.statements
        assert not told.holds
