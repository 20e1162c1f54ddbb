from __future__ import annotations

import pytest

from rag.stages.query.decompose import best_described, bridge_names, decompose_question


@pytest.mark.parametrize(
    ("question", "first", "second"),
    [
        (
            "Where was the author of “Tin Road” born?",
            "the author of “Tin Road”",
            "Where was N born",
        ),
        (
            "Which river passes the town where Ada Bell was born?",
            "the town where Ada Bell was born",
            "",
        ),
        ("What is the population of Ada Bell's home town?", "Ada Bell's home town", ""),
        ("《铁路》的作者的出生地是哪里？", "《铁路》的作者", "N 出生地是哪里"),
        ("创办恒锐仪器的人出生于哪一年？", "创办恒锐仪器的人", "N 出生于哪一年"),
        ("陆明出生的城市有多少人口？", "陆明出生的城市", "N 有多少人口"),
        ("Who wrote Tin Road, and where was he born?", "Who wrote Tin Road", ""),
    ],
)
def test_what_is_described_is_searched_first(question: str, first: str, second: str) -> None:
    parts = decompose_question(question)
    assert parts is not None
    assert parts.has_hops
    assert parts.parts == (first,)
    assert not second or parts.second_question("N") == second


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "When was Lund founded and who is mayor of Oslo?",
            ("When was Lund founded", "who is mayor of Oslo"),
        ),
        ("故宫建于哪一年，长城有多长？", ("故宫建于哪一年", "长城有多长")),
        ("How high is K2? How deep is Lake Baikal?", ("How high is K2", "How deep is Lake Baikal")),
    ],
)
def test_joined_questions_are_parts(question: str, parts: tuple[str, ...]) -> None:
    found = decompose_question(question)
    assert found is not None
    assert not found.has_hops
    assert found.parts == parts


@pytest.mark.parametrize(
    "question",
    [
        "Who is the author of “Tin Road”?",
        "What is the name of the bridge that joins both halves of the campus?",
        "How often is the pump serviced?",
        "the pump that leaks",
        "泵多久保养一次？",
        "《铁路》的作者是谁？",
        "野马队的总经理叫什么名字？",
        "",
        "?" * 50,
        "Where was the author of X born " * 40,
    ],
)
def test_one_part_is_left_alone(question: str) -> None:
    assert decompose_question(question) is None


def test_names_beside_what_is_described_lead_on() -> None:
    text = "Rain fell. The novel “Tin Road” was written by Ada Bell. Its printer was Corvin Press."
    assert bridge_names("the author of “Tin Road”", text)[0] == "Ada Bell"
    assert bridge_names(
        "《铁路》的作者", "长篇小说《铁路》于2014年问世，作者苏云舟改写了四次。"
    ) == ("苏云舟",)
    assert bridge_names("anything", "") == ()


def test_the_rare_words_of_a_description_decide() -> None:
    texts = ["the author of many books", "Tin Road came out in 1970", "an author at a road"]
    assert best_described("the author of Tin Road", texts) == [1]
    assert best_described("the author", ["nothing of it"]) == []
