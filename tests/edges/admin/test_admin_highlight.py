"""Matched words are marked in the text as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.admin.ui.highlight import split_matches
from rag.stages.text.terms import index_terms, query_terms


def marked(text: str, terms: object) -> list[str]:
    return [piece for piece, is_match in split_matches(text, terms) if is_match]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "question", "words"),
    [
        ("Citations and a citation", "citation", ["Citations", "citation"]),
        ("the code A-1203 and 1203", "A-1203", ["A-1203", "1203"]),
        ("A-1203 only", "1203", ["1203"]),
        ("员工手册与手册", "手册", ["手册", "手册"]),
        ("数据库连接池", "数据库", ["数据库"]),
        ("ＡＢＣ full width", "abc", ["ＡＢＣ"]),
        ("Straße and STRASSE", "strasse", ["Straße", "STRASSE"]),
        ("a ﬁne day", "fine", ["ﬁne"]),
        ("nothing", "else", []),
        ("", "word", []),
    ],
)
def test_words_are_marked_in_every_form(text: str, question: str, words: list[str]) -> None:
    terms = [term for term in query_terms(question) if term in index_terms(text)]
    assert marked(text, terms) == words


def test_overlapping_terms_are_one_mark() -> None:
    assert marked("知识库系统", ["知识", "识库", "知识库"]) == ["知识库"]


def test_no_term_marks_nothing() -> None:
    assert split_matches("some text", []) == [("some text", False)]


@given(st.text(max_size=60), st.lists(st.text(max_size=4), max_size=5))
def test_the_pieces_are_the_text(text: str, terms: list[str]) -> None:
    pieces = split_matches(text, [term for term in terms if term])
    assert "".join(piece for piece, _ in pieces) == text
    assert all(piece for piece, _ in pieces)


@given(st.text(alphabet="年假数据库 abcABCﬁß-1", max_size=30))
def test_a_text_s_own_terms_mark_all_its_letters(text: str) -> None:
    pieces = split_matches(text, index_terms(text))
    unmarked = "".join(piece for piece, is_match in pieces if not is_match)
    assert set(unmarked) <= set(" -")
