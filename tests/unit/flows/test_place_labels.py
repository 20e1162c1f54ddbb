"""Words of arrows: on their own line, away from boxes, other words and other lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.draw_graph import Rect, curve_points, place_labels

DOWN = [(0.0, float(y)) for y in range(0, 130, 10)]
numbers = st.floats(-500, 500)
rects = st.tuples(numbers, numbers, st.floats(1, 200), st.floats(1, 200)).map(
    lambda found: Rect(found[0], found[1], found[0] + found[2], found[1] + found[3])
)


def test_a_curve_begins_and_ends_where_it_should_and_is_straight_if_its_points_are() -> None:
    found = list(curve_points([(0, 0), (0, 30), (0, 60), (0, 90)]))
    assert (found[0], found[-1], len(found)) == ((0, 0), (0, 90), 13)
    assert [x for x, _ in found] == [0] * 13
    assert found[6] == (0, pytest.approx(45))


def test_words_stand_in_the_middle_where_nothing_is_in_the_way() -> None:
    assert place_labels([DOWN, DOWN], [(40, 15), None], []) == [(0.0, 60.0), None]


def test_words_go_along_their_line_out_of_the_way_of_a_box_and_of_other_words() -> None:
    box = Rect(-50, 40, 50, 90)
    (at,) = place_labels([DOWN], [(40, 15)], [box])
    assert at is not None and not box.holds(at) and at in DOWN
    first, second = place_labels([DOWN, DOWN], [(40, 15), (40, 15)], [])
    assert first is not None and second is not None and abs(first[1] - second[1]) >= 15


def test_words_stand_where_the_fewest_other_lines_pass() -> None:
    across = [(float(x), 60.0) for x in range(-30, 40, 10)]
    at, _ = place_labels([DOWN, across], [(40, 15), None], [])
    assert at is not None and abs(at[1] - 60) > 7


def test_where_no_place_is_free_words_stand_all_the_same() -> None:
    assert place_labels([DOWN], [(40, 15)], [Rect(-99, -99, 99, 199)]) == [(0.0, 60.0)]


@given(rects, rects)
def test_two_rectangles_meet_if_and_only_if_they_share_an_inner_point(a: Rect, b: Rect) -> None:
    left, right = max(a.left, b.left), min(a.right, b.right)
    top, bottom = max(a.top, b.top), min(a.bottom, b.bottom)
    assert a.meets(b) == b.meets(a) == (left < right and top < bottom)
    if a.meets(b):
        middle = ((left + right) / 2, (top + bottom) / 2)
        assert a.holds(middle) and b.holds(middle)
