"""Marks amid a sentence, and several sentences in one element: what each mark is held against."""

from __future__ import annotations

import pytest

from rag.stages.citing.verify import AnswerWriter, VerifiedAnswer, verify_answer
from tests.unit.passages import make_passages

PUMP = (
    "The pump is serviced every 30 days by the maintenance team. The filter is replaced once a "
    "year. It costs 45 yuan at the counter."
)
CHINESE = "液位传感器每 180 天校准一次。校准由设备科负责，记录保存三年。"
LAMP = "The lamp of the greenhouse is switched off at 22:00 by a timer."
PASSAGES = make_passages(PUMP, CHINESE, LAMP)


def told(answer: VerifiedAnswer) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.verdict, one.citations) for one in answer.groundedness.statements]


MARKS = {
    "in front": (
        "According to [1], the pump is serviced every 30 days.",
        [("verified", "doc_01")],
        [("cited", (1,))],
    ),
    "first of all": (
        "[1] The pump is serviced every 30 days.",
        [("verified", "doc_01")],
        [("cited", (1,))],
    ),
    "amid": (
        "The pump [1] is serviced every 30 days.",
        [("verified", "doc_01")],
        [("cited", (1,))],
    ),
    "chinese": (
        "根据[2]，液位传感器每 180 天校准一次。",
        [("verified", "doc_02")],
        [("cited", (1,))],
    ),
    "named in words": (
        "As [Source 3] says, the lamp of the greenhouse is switched off at 22:00.",
        [("verified", "doc_03")],
        [("cited", (1,))],
    ),
    "a tag without a claim": (
        'As <cite doc_id="doc_03"/> says, the lamp of the greenhouse is switched off at 22:00.',
        [("verified", "doc_03")],
        [("cited", (1,))],
    ),
    "one for each half": (
        "The pump is serviced every 30 days [1], and the lamp is switched off at 22:00 [3].",
        [("verified", "doc_01"), ("verified", "doc_03")],
        [("cited", (1, 2))],
    ),
    "that says otherwise": (
        "According to [1], the pump is serviced every 90 days.",
        [("altered", "doc_01")],
        [("contradicted", (1,))],
    ),
    "of the wrong document": (
        "According to [3], the pump is owned by the king of Spain.",
        [("unknown", "doc_03")],
        [("unsupported", (1,))],
    ),
}


@pytest.mark.parametrize("n_characters", [1, 7, 1000])
@pytest.mark.parametrize("name", MARKS)
def test_a_bare_mark_is_held_against_its_sentence(name: str, n_characters: int) -> None:
    text, citations, statements = MARKS[name]
    writer = AnswerWriter(PASSAGES)
    shown = ""
    for at in range(0, len(text), n_characters):
        parts = writer.feed(text[at : at + n_characters])
        shown += "".join(part for part in parts if isinstance(part, str))
    shown += "".join(part for part in writer.finish() if isinstance(part, str))
    answer = writer.result()
    assert [(one.verdict, one.doc_id) for one in answer.citations] == citations
    assert told(answer) == statements
    assert shown == answer.text
    assert len(answer.citations) == answer.text.count("[")


def test_a_mark_stands_where_it_was_written() -> None:
    answer = verify_answer("According to [3], the lamp is switched off at 22:00.", PASSAGES)
    assert answer.text == "According to [1], the lamp is switched off at 22:00."


def cite(claim: str, quote: str) -> str:
    return f'<cite doc_id="doc_01" quote="{quote}">{claim}</cite>'


SENTENCES = {
    "all of the quote": (
        cite("The pump is serviced every 30 days. The filter is replaced once a year.", PUMP[:95]),
        "The pump is serviced every 30 days. The filter is replaced once a year.[1]",
        [("cited", (1,)), ("cited", (1,))],
    ),
    "one of another place": (
        cite(
            "The filter costs 45 yuan at the counter. The pump is serviced every 30 days.",
            PUMP[:59],
        ),
        "The filter costs 45 yuan at the counter.[1] The pump is serviced every 30 days.[2]",
        [("attributed", (1,)), ("cited", (2,))],
    ),
    "one that is invented": (
        cite("Mars owns the pump of the king. The pump is serviced every 30 days.", PUMP[:59]),
        "Mars owns the pump of the king. The pump is serviced every 30 days.[1]",
        [("unsupported", ()), ("cited", (1,))],
    ),
    "one that says otherwise": (
        cite("The pump is serviced every 90 days. The filter is replaced once a year.", PUMP[:95]),
        "The pump is serviced every 90 days. The filter is replaced once a year.[1]",
        [("contradicted", ()), ("cited", (1,))],
    ),
    "without a quote": (
        '<cite doc_id="doc_01">The pump is serviced every 30 days. '
        "The filter is replaced once a year.</cite>",
        "The pump is serviced every 30 days. The filter is replaced once a year.[1]",
        [("cited", (1,)), ("cited", (1,))],
    ),
}


@pytest.mark.parametrize("n_characters", [1, 7, 1000])
@pytest.mark.parametrize("name", SENTENCES)
def test_sentences_in_one_element_share_its_citation(name: str, n_characters: int) -> None:
    text, shown, statements = SENTENCES[name]
    writer = AnswerWriter(PASSAGES)
    for at in range(0, len(text), n_characters):
        writer.feed(text[at : at + n_characters])
    writer.finish()
    answer = writer.result()
    assert (answer.text, told(answer)) == (shown, statements)
    assert {one.verdict for one in answer.citations} == {"verified"}


def test_an_element_whose_quote_fails_gives_its_sentences_no_citation() -> None:
    text = cite("The pump is serviced every 30 days. It is blue and old.", "The king is blue.")
    answer = verify_answer(text, PASSAGES)
    assert [one.verdict for one in answer.citations] == ["verified", "unknown"]
    assert told(answer)[0] == ("attributed", (1,))
