"""An answer while it is written: what is shown, taken back and repaired, and what came of it."""

from __future__ import annotations

import pytest

from rag.core.hits import Hit
from rag.stages.citing.verify import AnswerWriter, VerifiedAnswer
from rag.stages.prompting.context import Passage

TEXT = "The pump is serviced yearly. The filter costs 45 yuan."
PASSAGES = (Passage("doc_01", Hit(text=TEXT, rank=1), TEXT),)
GOOD = '<cite doc_id="doc_01" quote="The pump is serviced yearly.">Yearly</cite>'
BAD = '<cite doc_id="doc_01" quote="The pump is never serviced.">Never</cite>'


def written(*pieces: str, drops: bool = False) -> AnswerWriter:
    writer = AnswerWriter(PASSAGES, drops_failed=drops)
    for piece in pieces:
        writer.feed(piece)
    writer.finish()
    return writer


def test_the_result_is_what_was_shown() -> None:
    writer = written(f"{GOOD[:9]}", f"{GOOD[9:]}. ", f"{BAD}.")
    answer = writer.result()
    assert (answer.text, answer.outcome) == ("Yearly[1]. Never[2].", "partial")
    assert [one.verdict for one in answer.citations] == ["verified", "altered"]
    assert writer.is_verified and [one.number for one in writer.failed] == [2]
    assert writer.raw == f"{GOOD}. {BAD}."


def test_words_of_ours_are_shown_and_are_no_answer() -> None:
    writer = AnswerWriter(PASSAGES, drops_failed=True)
    assert writer.say("(Cut short.) ") == "(Cut short.) "
    writer.feed(f"{BAD}.")
    writer.finish()
    assert writer.is_empty and writer.n_dropped == 1
    writer.say("I do not know.")
    assert writer.result("not_found") == VerifiedAnswer(
        "(Cut short.) I do not know.", outcome="not_found"
    )


def test_what_was_shown_can_be_taken_back() -> None:
    writer = written(f"{GOOD}.")
    assert writer.retract() and not writer.retract()
    assert writer.result("not_found") == VerifiedAnswer("", outcome="not_found")


@pytest.mark.parametrize(
    ("again", "text"),
    [
        (f"{GOOD}.", "Yearly[1]."),
        (f"{BAD}.", None),
        ("The pump is serviced yearly.", "The pump is serviced yearly.[1]"),
        ("Weekly.", None),
        ("", None),
        (GOOD.replace(">Yearly<", "> <"), " [1]"),
    ],
)
def test_an_answer_is_replaced_by_one_of_which_more_quotes_hold(
    again: str, text: str | None
) -> None:
    repaired = written(f"{BAD}.").repaired(again)
    assert (repaired.text if repaired else None) == text


def test_a_repair_keeps_words_of_ours() -> None:
    writer = AnswerWriter(PASSAGES)
    writer.say("(Cut short.) ")
    writer.feed(f"{BAD}.")
    writer.finish()
    repaired = writer.repaired(f"{GOOD}.")
    assert repaired is not None and repaired.text == "(Cut short.) Yearly[1]."


OTHER = "The hall closes at nine in the evening."
MANY = (
    Passage("doc_07", Hit(text=TEXT, rank=1), TEXT),
    Passage("doc_12", Hit(text=OTHER, rank=2), OTHER),
)


@pytest.mark.parametrize("size", [1, 1000])
def test_a_mark_can_be_the_number_of_its_document(size: int) -> None:
    raw = (
        "The hall closes at nine in the evening [12]. The pump is serviced yearly. "
        '<cite doc_id="doc_07" quote="The filter costs 45 yuan.">It costs 45 yuan</cite> [7]. '
        "Mars owns it [9]. And so does he [Source 3]."
    )
    writer = AnswerWriter(MANY, marks="documents")
    for at in range(0, len(raw), size):
        writer.feed(raw[at : at + size])
    writer.finish()
    assert writer.text == (
        "The hall closes at nine in the evening [12]. The pump is serviced yearly.[7] "
        "It costs 45 yuan[7] . Mars owns it [9]. And so does he [3]."
    )
    assert [one.number for one in writer.citations] == [12, 7, 7, 7, 9, 3]
    assert [one.verdict for one in writer.citations[-2:]] == ["unknown", "unknown"]
    assert [one.verdict for one in writer.statements[-2:]] == ["unsupported", "unsupported"]
    again = AnswerWriter(MANY, marks="documents")
    again.feed(writer.text)
    again.finish()
    assert again.text == writer.text


def test_a_citation_that_names_no_document_has_no_mark() -> None:
    writer = AnswerWriter(MANY, marks="documents", drops_failed=True)
    writer.feed(
        'The hall closes at nine in the evening [12]. <cite doc_id="x" quote="Mars">Mars</cite>.'
    )
    writer.finish()
    assert (writer.text.strip(), writer.n_dropped) == (
        "The hall closes at nine in the evening [12].",
        1,
    )


def test_what_is_repaired_keeps_the_numbers_of_its_documents() -> None:
    writer = AnswerWriter(MANY, marks="documents")
    writer.feed("Mars owns it [12].")
    writer.finish()
    found = writer.repaired("The hall closes at nine in the evening [12].")
    assert found is not None and found.text == "The hall closes at nine in the evening [12]."
