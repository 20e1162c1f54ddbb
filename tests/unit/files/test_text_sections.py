"""A file's text in pieces: every character once, with its page, its chunk and the mark."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rag import models
from rag.admin.files.text_page import TextPiece, split_into_pages


def chunk(start: int, own: int, end: int, ordinal: int = 0, enabled: bool = True) -> models.Chunk:
    return models.Chunk(
        ordinal=ordinal, char_start=start, own_start=own, char_end=end, enabled=enabled
    )


def page(number: int, start: int, end: int) -> dict[str, Any]:
    return {"number": number, "label": "", "start": start, "end": end, "has_text_layer": True}


def pieces(*args: Any) -> list[TextPiece]:
    return [piece for section in split_into_pages(*args) for piece in section["pieces"]]


def test_chunks_are_drawn_over_the_text_and_a_mark_over_them() -> None:
    first, second = chunk(0, 0, 6), chunk(4, 6, 10, 1, enabled=False)
    found = pieces("abcdefghijkl", 0, [], (4, 8), [first, second])
    assert [piece.text for piece in found] == ["abcd", "ef", "gh", "ij", "kl"]
    assert [piece.is_marked for piece in found] == [False, True, True, False, False]
    assert [piece.is_first for piece in found][1:3] == [True, False]
    assert [piece.parity for piece in found] == [0, 0, 1, 1, None]
    assert [piece.chunk for piece in found] == [first, None, second, None, None]
    assert [piece.is_off for piece in found] == [False, False, True, True, False]


def test_a_chunk_over_two_pages_begins_once() -> None:
    one = chunk(2, 2, 8)
    sections = split_into_pages("abcdefghij", 0, [page(1, 0, 5), page(2, 5, 10)], (0, 0), [one])
    assert [section["number"] for section in sections] == [1, 2]
    found = [piece for section in sections for piece in section["pieces"]]
    assert [(piece.text, piece.chunk is not None) for piece in found] == [
        ("ab", False),
        ("cde", True),
        ("fgh", False),
        ("ij", False),
    ]


cuts = st.lists(st.integers(0, 60), max_size=12)


@given(st.text(min_size=1, max_size=50), st.integers(0, 9), cuts, cuts, st.integers(0, 60))
def test_the_pieces_joined_are_the_text(
    text: str, start: int, borders: list[int], ends: list[int], mark: int
) -> None:
    places = sorted(set(borders))
    chunks = [chunk(a, a, b) for a, b in pairwise(places)]
    edges = sorted(
        {start, *(cut for cut in ends if start < cut < start + len(text)), start + len(text)}
    )
    pages = [page(n, a, b) for n, (a, b) in enumerate(pairwise(edges), 1)]
    for chosen in (pages, []):
        found = pieces(text, start, chosen, (mark, mark + 5), chunks)
        assert "".join(piece.text for piece in found) == text
        assert sum(piece.is_first and piece.is_marked for piece in found) <= len(chosen or [1])
