"""From bytes of parts to code points of an answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.file_search import Grounding
from rag.stages.citing.grounding import GroundingSupport, resolve_groundings

A, B = Grounding("a.pdf", "甲"), Grounding("b.pdf", "乙", page=2)
PARTS = st.lists(st.text(st.characters(codec=None), max_size=12), max_size=5)


def spans(
    parts: list[str], *supports: GroundingSupport
) -> list[tuple[str, int | None, int | None]]:
    found = resolve_groundings(parts, [A, B], supports)
    return [(one.source, one.start, one.end) for one in found]


def at_bytes(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the bytes of a stretch in code points."""
    return len(text[:start].encode("utf-8", "surrogatepass")), len(
        text[:end].encode("utf-8", "surrogatepass")
    )


def test_bytes_of_chinese_text_are_three_a_character() -> None:
    support = GroundingSupport([0], 0, 21, text="保固期為兩年。")
    (found,) = resolve_groundings(["保固期為兩年。Parts too."], [A], [support])
    assert (found.start, found.end) == (0, 7)
    assert found == Grounding("a.pdf", "甲", start=0, end=7)


def test_offsets_count_within_their_part() -> None:
    parts = ["保固期為兩年。", "Warranty: two years."]
    assert spans(parts, GroundingSupport([1], 0, 20, part=1)) == [
        ("b.pdf", 7, 27),
        ("a.pdf", None, None),
    ]


def test_a_thought_is_a_part_without_text() -> None:
    assert spans(["", "一二三"], GroundingSupport([0, 1], 3, 6, part=1)) == [
        ("a.pdf", 1, 2),
        ("b.pdf", 1, 2),
    ]


def test_pieces_of_a_stream_are_one_part_to_the_service() -> None:
    assert spans(["一二", "三四", "五"], GroundingSupport([0], 6, 15, text="三四五"))[0] == (
        "a.pdf",
        2,
        5,
    )
    assert spans(["一二", "三四", "五"], GroundingSupport([0], 6, 15))[0] == ("a.pdf", 2, 5)


@pytest.mark.parametrize("start", [0, 1, 4, 500, -7])
def test_the_text_is_believed_more_than_the_numbers(start: int) -> None:
    support = GroundingSupport([0], start, start + 3, text="三四")
    assert spans(["一二三四五"], support)[0] == ("a.pdf", 2, 4)


def test_of_equal_texts_the_nearest_is_meant() -> None:
    parts = ["yes no yes no yes"]
    assert spans(parts, GroundingSupport([0], 6, 10, text="yes"))[0] == ("a.pdf", 7, 10)
    assert spans(parts, GroundingSupport([0], 13, 17, text="yes"))[0] == ("a.pdf", 14, 17)


def test_numbers_inside_a_character_take_all_of_it() -> None:
    assert spans(["一二三"], GroundingSupport([0], 4, 5))[0] == ("a.pdf", 1, 2)
    assert spans(["a😀b"], GroundingSupport([0], 2, 3))[0] == ("a.pdf", 1, 2)


@pytest.mark.parametrize(
    "support",
    [
        GroundingSupport([0], 0, 0),
        GroundingSupport([0], 5, 2),
        GroundingSupport([0], -3, 3),
        GroundingSupport([0], 0, 10_000),
        GroundingSupport([0], 0, 3, part=7, text="nowhere"),
        GroundingSupport([0], 0, 3, text="not in it"),
    ],
)
def test_what_cannot_be_placed_leaves_the_chunk_alone(support: GroundingSupport) -> None:
    assert spans(["一二三"], support) == [("a.pdf", None, None), ("b.pdf", None, None)]


def test_stretches_come_in_the_order_of_the_answer_once_each() -> None:
    found = spans(
        ["一二三四"],
        GroundingSupport([1, 0], 6, 12),
        GroundingSupport([0], 0, 6),
        GroundingSupport([0], 0, 6),
        GroundingSupport([5, -1], 0, 3),
    )
    assert found == [("a.pdf", 0, 2), ("a.pdf", 2, 4), ("b.pdf", 2, 4)]


def test_nothing_gives_nothing() -> None:
    assert resolve_groundings([], [], []) == ()
    assert resolve_groundings(["x"], [], [GroundingSupport([0], 0, 1)]) == ()
    assert resolve_groundings([], [A], [GroundingSupport([0], 0, 1)]) == (A,)


@given(PARTS, st.data())
def test_any_stretch_of_any_part_comes_back_exactly(parts: list[str], data: st.DataObject) -> None:
    part = data.draw(st.integers(0, max(0, len(parts) - 1)))
    text = parts[part] if parts else ""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    first, last = at_bytes(text, start, end)
    has_text = data.draw(st.booleans())
    support = GroundingSupport([0], first, last, part, text[start:end] if has_text else "")
    (found,) = resolve_groundings(parts, [A], [support])
    if start == end:
        assert found.start is None
    else:
        before = sum(map(len, parts[:part]))
        assert (found.start, found.end) == (before + start, before + end)


@given(
    PARTS,
    st.lists(
        st.builds(
            GroundingSupport,
            st.lists(st.integers(-2, 4), max_size=4),
            st.integers(-9, 99),
            st.integers(-9, 99),
            st.integers(-1, 6),
            st.text(max_size=3),
        ),
        max_size=5,
    ),
)
def test_whatever_the_service_says_spans_lie_within_the_answer(
    parts: list[str], supports: list[GroundingSupport]
) -> None:
    whole = "".join(parts)
    found = resolve_groundings(parts, [A, B], supports)
    assert {one.source for one in found} == {"a.pdf", "b.pdf"}
    for one in found:
        if one.start is not None:
            assert one.end is not None and 0 <= one.start < one.end <= len(whole)
