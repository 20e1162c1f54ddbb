"""Sentences without markers and the sources they come from, in both languages."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.citing.attribute import THRESHOLD, Attribution, attribute_claims
from rag.stages.prompting.context import Passage
from tests.unit.passages import make_hit, make_passages

MANUAL = (
    "Fault E21 means that the pump is too hot. Wait 15 minutes until the motor is cool, then "
    "restart it. Never open the blue valve while the main lamp is on."
)
CONTRACT = (
    "服务合同每年续签一次，月费为 3,850 元。滤网在每次停机以后必须用清水冲洗干净，不得重复使用。"
    "水泵过热时应等待十五分钟，让电机冷却以后再重新启动。"
)
WEATHER = "Rain is expected in the north on Monday. Winds will be light. 周一北方有雨，气温下降。"
PASSAGES = make_passages(MANUAL, CONTRACT, WEATHER)


def attribute(text: str) -> Attribution:
    return attribute_claims(text, PASSAGES)


SUPPORTED = {
    "copied": ("Wait 15 minutes until the motor is cool, then restart it.", "doc_01"),
    "other words around": ("You should wait 15 minutes until the motor is cool.", "doc_01"),
    "reordered": ("While the main lamp is on, never open the blue valve.", "doc_01"),
    "inflected": ("The pumps are too hot: this is what fault E21 means.", "doc_01"),
    "chinese copied": ("滤网在每次停机以后必须用清水冲洗干净，不得重复使用。", "doc_02"),
    "chinese reordered": ("月费为3,850元，服务合同每年续签一次。", "doc_02"),
    "chinese dropped words": ("水泵过热应等待十五分钟，电机冷却以后再启动。", "doc_02"),
    "full width": ("月费为 ３，８５０ 元，服务合同每年续签一次。", "doc_02"),
    "beside the other language": ("周一北方有雨，气温会下降。", "doc_03"),
}


@pytest.mark.parametrize("name", SUPPORTED)
def test_a_sentence_finds_its_source(name: str) -> None:
    sentence, doc_id = SUPPORTED[name]
    found = attribute(sentence)
    (citation,) = found.citations
    assert (citation.doc_id, citation.claim, citation.number) == (doc_id, sentence, 1)
    assert found.text == f"{sentence}[1]"
    assert found.unsupported == ()
    assert THRESHOLD <= found.scores[0] <= 1


@pytest.mark.parametrize(
    "name", ["copied", "reordered", "chinese copied", "chinese reordered", "full width"]
)
def test_a_faithful_sentence_is_verified(name: str) -> None:
    (citation,) = attribute(SUPPORTED[name][0]).citations
    assert (citation.verdict, citation.distance) == ("verified", 0)


def test_the_quote_is_the_source_s_sentence_and_its_place() -> None:
    hit = make_hit(MANUAL, start=500, pages=(3, 4))
    (citation,) = attribute_claims(
        "Wait 15 minutes until the motor is cool.", [Passage("doc_07", hit, MANUAL)]
    ).citations
    sentence = "Wait 15 minutes until the motor is cool, then restart it."
    assert citation.quote == citation.found == sentence
    assert citation.char_start == 500 + MANUAL.index(sentence)
    assert citation.char_end == citation.char_start + len(sentence)
    assert (citation.doc_id, citation.page, citation.file_name) == ("doc_07", 3, "file1.pdf")


ALTERED = [
    "Wait 50 minutes until the motor is cool, then restart it.",
    "Do not wait 15 minutes until the motor is cool, then restart it.",
    "Open the blue valve while the main lamp is on.",
    "服务合同每年续签一次，月费为 3,580 元。",
    "滤网在每次停机以后不必用清水冲洗干净，不得重复使用。",
    "滤网在每次停机以后必须用清水冲洗干净，可以重复使用。",
    "水泵过热时应等待五十分钟，让电机冷却以后再重新启动。",
    "Wait 15 minutes until the motor is cool, then call a doctor, a lawyer and the fire brigade.",
]


@pytest.mark.parametrize("sentence", ALTERED)
def test_what_the_source_does_not_say_is_altered(sentence: str) -> None:
    (citation,) = attribute(sentence).citations
    assert citation.verdict == "altered"
    assert citation.distance >= 1
    assert citation.found


FOREIGN = [
    "The moon orbits the earth.",
    "Valves were invented in ancient Rome.",
    "月亮围绕地球转动。",
    "本公司成立于上海，主要生产轴承。",
    "Yes.",
    "15",
]


@pytest.mark.parametrize("sentence", FOREIGN)
def test_a_sentence_of_its_own_is_listed_as_unsupported(sentence: str) -> None:
    found = attribute(sentence)
    assert found == Attribution(sentence, (), (), (sentence,))


def test_an_answer_is_numbered_sentence_by_sentence() -> None:
    text = (
        "# What to do\n\n- Wait 15 minutes until the motor is cool. The moon is far away.\n"
        "- 服务合同每年续签一次，月费为 3,850 元。\n\n```\nWait 15 minutes until the motor is cool.\n```\n"
    )
    found = attribute(text)
    assert found.text == (
        "# What to do\n\n- Wait 15 minutes until the motor is cool.[1] The moon is far away.\n"
        "- 服务合同每年续签一次，月费为 3,850 元。[2]\n\n```\nWait 15 minutes until the motor is cool.\n```\n"
    )
    assert [citation.number for citation in found.citations] == [1, 2]
    assert found.unsupported == ("The moon is far away.",)


def test_a_sentence_made_of_two_quotes_both() -> None:
    text = "Fault E21 means that the pump is too hot, so wait 15 minutes until the motor is cool, then restart it."
    (citation,) = attribute(text).citations
    assert citation.quote.startswith("Fault E21")
    assert citation.quote.endswith("then restart it.")


def test_nothing_comes_of_nothing() -> None:
    assert attribute("") == Attribution("", (), (), ())
    assert attribute(" \n。！") == Attribution(" \n。！", (), (), ())
    sentence = "Wait 15 minutes until the motor is cool."
    assert attribute_claims(sentence, []).unsupported == (sentence,)
    assert attribute_claims(sentence, make_passages("")).unsupported == (sentence,)


def test_a_higher_threshold_cites_less() -> None:
    sentence = "You really should have to wait for some 15 minutes until that big motor is cool."
    assert len(attribute_claims(sentence, PASSAGES, threshold=0.1).citations) == 1
    assert attribute_claims(sentence, PASSAGES, threshold=0.95).unsupported == (sentence,)


@given(
    st.lists(
        st.sampled_from([MANUAL, CONTRACT, "a b", "水。", "\n", "# x\n", "```", "1"])
        | st.text(max_size=9),
        max_size=9,
    )
)
def test_no_answer_raises_and_taking_the_numbers_out_gives_it_back(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = attribute(text)
    rest = found.text
    for citation in found.citations:
        mark = f"{citation.claim}[{citation.number}]"
        assert mark in rest
        rest = rest.replace(mark, citation.claim, 1)
        source = {"doc_01": MANUAL, "doc_02": CONTRACT, "doc_03": WEATHER}[citation.doc_id]
        assert source[citation.char_start : citation.char_end] == citation.quote
    assert rest == text
    assert len(found.scores) == len(found.citations)


def test_forty_thousand_characters_are_searched_in_time() -> None:
    texts = [
        "".join(
            f"条目 {n}：水泵 HX-{n} 须冷却 {n % 60} 分钟，然后重启。The pump {n} stops.\n"
            for n in range(k, k + 70)
        )
        for k in range(0, 700, 70)
    ]
    passages = make_passages(*texts)
    answer = "\n".join(text.splitlines()[40] for text in texts)
    started = time.process_time()
    found = attribute_claims(answer, passages)
    assert time.process_time() - started < 0.5
    assert len({citation.doc_id for citation in found.citations}) == 10
