"""Quotes with an ellipsis: what they may leave out, and what they may not."""

from __future__ import annotations

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.types import Citation
from tests.unit.passages import make_passages, verify_citations

MANUAL = (
    "The pump of hall 4 stops by itself. Wait 15 minutes beside the motor and its fan, then restart it by hand. "
    "Never open the blue valve while the lamp is on. Entry is allowed, but only with a permit. "
    "The tank must be drained and rinsed with clean water, dried in the sun and closed.\n"
    "| Model | Power |\n| B200 | 1500 W |\n| B300 | 1800 W |\n"
    "液位传感器每180天须校准一次，由合格的技术员完成，并记入维护手册。若停用则不必校准，直到重新启用。"
)
PASSAGES = make_passages(
    MANUAL, "The fee is 3,850 yuan a month, paid in advance to the office in hall 2."
)


def check(quote: str, doc_id: str = "doc_01", **more: bool) -> Citation:
    text = f'<cite doc_id="{doc_id}" quote="{html.escape(quote)}">claim</cite>'
    _, (citation,) = verify_citations(text, PASSAGES, **more)
    return citation


ABRIDGED = {
    "Wait 15 minutes … then restart it by hand.": [" beside the motor and its fan, "],
    "Wait 15 minutes... restart it by hand": [" beside the motor and its fan, then "],
    "Wait 15 minutes [...] its fan, [...] by hand.": [
        " beside the motor and ",
        ", then restart it ",
    ],
    "The pump of hall 4 stops by itself. … Never open the blue valve while the lamp is on.": [
        ". Wait 15 minutes beside the motor and its fan, then restart it by hand. "
    ],
    "液位传感器每180天须校准一次……并记入维护手册。": ["，由合格的技术员完成，"],
    "液位传感器……由合格的技术员完成": ["每180天须校准一次，"],
    "The tank must be drained … closed.": [" and rinsed with clean water, dried in the sun and "],
    "The tank must be drained and rinsed with clean water, dried…": [],
    "…must be drained and rinsed with clean water, dried in the sun and closed.": [],
}
HIDING = [
    "Entry is allowed … with a permit.",
    "Entry … only with a permit.",
    "Wait 15 minutes … open the blue valve while the lamp is on.",
    "Never open the blue valve … Entry is allowed, but only with a permit.",
    "液位传感器每180天须校准一次……校准，直到重新启用。",
    "液位传感器每180天须校准一次……校准……",
    "…open the blue valve while the lamp is on.",
    "Never open the blue valve…",
    "Entry is allowed…",
    # What no source says in this order, or at all.
    "then restart it by hand … Wait 15 minutes",
    "Wait 50 minutes … then restart it by hand.",
    "The pump of hall 4 … its fan, then restart it by hand.",
    "B200 … 1800 W",
    # Cut words and numbers.
    "Wait 1 … then restart it by hand.",
    "Wait 15 min … then restart it by hand.",
]


@pytest.mark.parametrize("quote", ABRIDGED)
def test_what_an_ellipsis_leaves_out_is_told(quote: str) -> None:
    citation = check(quote)
    assert (citation.verdict, citation.distance) == ("abridged", 0)
    left_out = [citation.found[start:end].strip(" ，。,.") for start, end in citation.omitted]
    assert left_out == [left.strip(" ，。,.") for left in ABRIDGED[quote]]
    assert MANUAL[citation.char_start : citation.char_end] == citation.found


@pytest.mark.parametrize("quote", HIDING)
def test_a_quote_that_hides_something_is_altered(quote: str) -> None:
    citation = check(quote)
    assert (citation.verdict, citation.omitted) == ("altered", ())
    assert citation.distance >= 1
    assert citation.found in MANUAL


@pytest.mark.parametrize(
    "quote",
    [
        "…The pump of hall 4 stops by itself.",
        "[…] Wait 15 minutes beside the motor and its fan […]",
        "(...) then restart it by hand. (...)",
        "……液位传感器每180天须校准一次……",
    ],
)
def test_an_ellipsis_at_either_end_of_whole_clauses_is_typography(quote: str) -> None:
    assert check(quote).verdict == "verified"


def test_an_abridged_quote_of_another_source_names_the_right_one() -> None:
    citation = check("The fee is 3,850 yuan a month … to the office in hall 2.")
    assert (citation.verdict, citation.doc_id) == ("wrong_document", "doc_02")
    ((start, end),) = citation.omitted
    assert citation.found[start:end] == ", paid in advance "


def test_when_whole_sentences_are_wanted_only_whole_ones_are_left_out() -> None:
    assert check("Wait 15 minutes … then restart it by hand.", is_strict=True).verdict == "altered"
    whole = "The pump of hall 4 stops by itself. … Never open the blue valve while the lamp is on."
    assert check(whole, is_strict=True).verdict == "abridged"


def test_the_place_is_the_one_that_hides_nothing() -> None:
    text = "Stop the pump, but not at night. Stop the pump and wait a while at night."
    passages = make_passages(text)
    _, (citation,) = verify_citations(
        '<cite doc_id="doc_01" quote="Stop the pump … at night.">so</cite>', passages
    )
    assert citation.verdict == "altered"
    text = "Stop the pump, but not at night. Stop the pump by hand at night."
    _, (citation,) = verify_citations(
        '<cite doc_id="doc_01" quote="Stop the pump … at night.">so</cite>', make_passages(text)
    )
    assert (citation.verdict, citation.found) == ("abridged", "Stop the pump by hand at night")


@pytest.mark.parametrize("quote", ["……。", "a…b", "…a…", "[…]"])
def test_ellipses_alone_quote_nothing(quote: str) -> None:
    assert check(quote).verdict == "unknown"


def test_a_thousand_ellipses_end_soon() -> None:
    text = "ab cd " * 3000
    _, (citation,) = verify_citations(
        f'<cite doc_id="doc_01" quote="{"ab … " * 700}">so</cite>', make_passages(text)
    )
    assert citation.verdict in ("abridged", "altered")


WORDS = "水火木金 abcde，。"


@given(
    st.lists(st.text(st.sampled_from(WORDS), min_size=3, max_size=30), min_size=3, max_size=9),
    st.data(),
)
def test_what_is_kept_and_what_is_omitted_make_up_the_place(
    pieces: list[str], data: st.DataObject
) -> None:
    source = "".join(pieces)
    keep = data.draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    quote = "".join(piece if kept else "……" for piece, kept in zip(pieces, keep, strict=True))
    passages = make_passages(source)
    _, (citation,) = verify_citations(
        f'<cite doc_id="doc_01" quote="{html.escape(quote)}">x</cite>', passages
    )
    last = 0
    for start, end in citation.omitted:
        assert last < start <= end < len(citation.found)
        last = end
    if citation.char_start is not None:
        assert source[citation.char_start : citation.char_end] == citation.found
