"""Discourse markers claim nothing; what follows them does."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.citing.discourse import is_courtesy, strip_transitions
from rag.stages.citing.statements import claims_nothing
from rag.stages.citing.verify import verify_answer
from tests.unit.passages import make_passages

VALVE, VENTIL = "the blue valve stays closed.", "蓝色阀门保持关闭。"


@pytest.mark.parametrize(
    "lead",
    [
        "Yes, ",
        "Sure! ",
        "In summary, ",
        "On the other hand, ",
        "Please note that ",
        "According to the provided documents, ",
        "The document states that ",
        "Sure, in other words: ",
    ],
)
def test_what_stands_before_a_claim_is_no_part_of_it(lead: str) -> None:
    assert strip_transitions(lead + VALVE) == VALVE


@pytest.mark.parametrize(
    "lead",
    [
        "是的，",
        "总的来说，",
        "需要注意的是，",
        "根据提供的资料，",
        "资料中提到，",
        "好的，也就是说，",
        "根据文档中的信息，",
    ],
)
def test_what_stands_before_a_chinese_claim_is_no_part_of_it(lead: str) -> None:
    assert strip_transitions(lead + VENTIL) == VENTIL


@pytest.mark.parametrize(
    "sentence",
    [
        "No. 5 valve is open.",
        "According to the president of Mars, the valve is open.",
        "Greater valves open first.",
        "不同的阀门同时打开。",
        "同时打开两个阀门。",
        "文档室在二楼。",
        "Information signs are blue.",
        "",
    ],
)
def test_what_only_looks_like_one_stays(sentence: str) -> None:
    assert strip_transitions(sentence) == sentence


COURTEOUS = [
    "Yes.",
    "Sure, I can help you with that!",
    "Hello, welcome to the desk.",
    "If you have any further questions, feel free to ask.",
    "Great question!",
    "好的，很高兴为您解答。",
    "如果您还有其他问题，请随时提问。",
    "希望以上内容对您有帮助。",
]


@pytest.mark.parametrize("sentence", COURTEOUS)
def test_a_courtesy_claims_nothing(sentence: str) -> None:
    assert claims_nothing(sentence)


CLAIMS = [
    "Yes, the valve was invented by a dentist.",
    "To summarize, every pump is painted blue.",
    "Overall, the tank belongs to the mayor.",
    "If you have spilled acid, call the mayor.",
    "Thanks to the mayor the pump is blue.",
    "是的，这台水泵是市长发明的。",
    "总之，水泵属于市长。",
    "如有泄漏，请给市长打电话。",
    "如果有人受伤，请给市长打电话。",
]


@pytest.mark.parametrize("sentence", CLAIMS)
def test_a_claim_behind_a_courtesy_is_judged(sentence: str) -> None:
    passages = make_passages("The pump is cooled by water. 水泵用水冷却。")
    (statement,) = verify_answer(sentence, passages).groundedness.statements
    assert statement.verdict == "unsupported"


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    assert text.endswith(strip_transitions(text))
    is_courtesy(text)


def test_a_long_row_of_transitions_is_read_in_time() -> None:
    begun = time.perf_counter()
    strip_transitions("Yes, " * 20_000 + "好的，" * 20_000 + " " * 50_000)
    assert time.perf_counter() - begun < 2
