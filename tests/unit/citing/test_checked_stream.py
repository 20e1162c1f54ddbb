"""An answer while it is checked: the same however it is cut; what fails is dropped by sentence."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, get_args

from hypothesis import example, given
from hypothesis import strategies as st

from rag.core.hits import Hit
from rag.core.types import Citation
from rag.stages.citing.verify import AnswerWriter, Marks, Part, failed_citations
from rag.stages.prompting.context import Passage
from tests.unit.passages import verify_citations

TEXT = "The pump is serviced yearly. The filter costs 45 yuan."
PASSAGES = (Passage("doc_01", Hit(text=TEXT, rank=1), TEXT),)
GOOD = '<cite doc_id="doc_01" quote="The pump is serviced yearly.">Yearly</cite>'
BAD = '<cite doc_id="doc_01" quote="The pump is never serviced.">Never</cite>'


def through(text: str, cuts: list[int], **rules: Any) -> list[Part]:
    stream = AnswerWriter(PASSAGES, **rules)
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    parts = [part for a, b in pairwise(places) for part in stream.feed(text[a:b])]
    return [*parts, *stream.finish()]


def shown(parts: list[Part]) -> str:
    return "".join(part for part in parts if isinstance(part, str))


def numbers(parts: list[Part]) -> list[int]:
    return [part.number for part in parts if isinstance(part, Citation)]


def test_marks_are_shown_and_nothing_is_held_back() -> None:
    assert shown(through(f"{GOOD}. {BAD}.", [])) == "Yearly[1]. Never[2]."
    stream = AnswerWriter(PASSAGES)
    assert stream.feed("A word") == ["A word"]


def test_the_sentence_of_a_failed_quote_goes_with_its_mark() -> None:
    parts = through(f"Sure. {BAD}. Then {GOOD}. Thank you.", [], drops_failed=True)
    assert shown(parts) == "Sure. Then Yearly[1]. Thank you."
    assert numbers(parts) == [1]


def test_a_statement_that_no_source_says_goes_too() -> None:
    text = "The president of Mars owns it. The filter costs 54 yuan. The filter costs 45 yuan."
    assert shown(through(text, [], drops_failed=True)) == "The filter costs 45 yuan.[1]"


def test_a_mark_behind_the_stop_belongs_to_the_sentence_before() -> None:
    behind = f"It is never serviced. {BAD.replace('>Never<', '><')} Thank you."
    assert shown(through(behind, [], drops_failed=True)) == "Thank you."


def test_chinese_sentences_are_parted_too() -> None:
    assert shown(through(f"好的。{BAD}。谢谢。", [], drops_failed=True)) == "好的。谢谢。"


def test_citations_can_be_left_out() -> None:
    parts = through(f"See [a] {GOOD}. {BAD}.", [], marks="hidden")
    assert shown(parts) == "See [a] Yearly. Never." and numbers(parts) == []


def test_a_number_in_brackets_of_the_text_is_kept_where_it_cites_nothing() -> None:
    assert shown(through("Size [mm] is 3.", [], marks="hidden")) == "Size [mm] is 3."


PIECES = st.lists(
    st.sampled_from(
        [GOOD, BAD, "word ", "No. 3 ", ". ", "。", "\n", "[1]", "<", "3.14 ", "[", "e.g. "]
    ),
    max_size=12,
)


@given(
    PIECES,
    st.lists(st.integers(0, 800), max_size=8),
    st.booleans(),
    st.sampled_from(get_args(Marks)),
)
@example(["。", "No. 3 ", BAD], [2], True, "numbered")
def test_the_cuts_change_nothing(
    pieces: list[str], cuts: list[int], drops: bool, marks: Marks
) -> None:
    text = "".join(pieces)
    rules: dict[str, Any] = {"drops_failed": drops, "marks": marks}
    whole, cut = through(text, [], **rules), through(text, cuts, **rules)
    assert (shown(cut), numbers(cut)) == (shown(whole), numbers(whole))
    if marks == "numbered" and not drops:
        plain, citations = verify_citations(text, PASSAGES)
        assert shown(whole) == plain and numbers(whole) == [one.number for one in citations]
    if drops and marks == "numbered":
        assert failed_citations([part for part in whole if isinstance(part, Citation)]) == []
