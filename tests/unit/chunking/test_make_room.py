"""Chunks that stay find an ordinal in a draft, and what lies in their place is told."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rag.stages.chunking.match_chunks import free_ordinals


def test_holes_that_the_draft_left_take_the_ordinals_it_left() -> None:
    rows = [(0, 0, 10), (2, 20, 30), (5, 50, 60)]
    assert free_ordinals(rows, [(11, 19), (31, 39), (40, 49)]) == ([1, 3, 4], [])


def test_rows_in_a_hole_are_not_wanted_and_give_their_place() -> None:
    rows = [(0, 0, 10), (1, 11, 19), (2, 20, 30)]
    assert free_ordinals(rows, [(11, 19)]) == ([1], [1])
    assert free_ordinals(rows, [(11, 30)]) == ([1], [1, 2])
    assert free_ordinals(rows, [(10, 20)]) == ([1], [1])
    assert free_ordinals(rows, [(0, 30)]) == ([0], [0, 1, 2])


def test_a_row_half_in_a_hole_does_not_fit() -> None:
    rows = [(0, 0, 10), (1, 11, 19)]
    for hole in ((5, 10), (0, 15), (12, 19), (12, 13)):
        assert free_ordinals(rows, [hole]) is None, hole


def test_nothing_needs_no_room() -> None:
    assert free_ordinals([], []) == ([], [])
    assert free_ordinals([], [(0, 5), (6, 9)]) == ([0, 1], [])


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.sets(st.integers(0, 29)))
def test_ordinals_are_free_and_in_order(is_hole: list[bool], late: set[int]) -> None:
    """Passages of ten characters: some the draft left out, of the others some are touched late."""
    rows = [(n, n * 10, n * 10 + 9) for n, hole in enumerate(is_hole) if not hole]
    holes = [(n * 10, n * 10 + 9) for n, hole in enumerate(is_hole) if hole or n in late]
    room = free_ordinals(rows, holes)
    assert room is not None
    ordinals, unwanted = room
    assert set(unwanted) == {n for n, hole in enumerate(is_hole) if not hole and n in late}
    left = [row for row in rows if row[0] not in unwanted]
    order = sorted(
        [(low, n) for n, low, _ in left]
        + [(low, n) for (low, _), n in zip(holes, ordinals, strict=True)]
    )
    assert all(first[1] < second[1] for first, second in pairwise(order))
