"""Passages are found in the next version of their text, and nothing is taken for them by chance."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.chunking.match_chunks import follow_spans

BODY = "The pump is serviced yearly. 水泵每年检修一次，由工程部负责。 The valve closes by itself."


def follow(old: str, new: str, words: str) -> str | None:
    start = old.index(words)
    span = follow_spans(old, new, [(start, start + len(words))])[0]
    return None if span is None else new[slice(*span)]


@pytest.mark.parametrize(
    ("new", "words", "found"),
    [
        (BODY, "水泵每年检修一次", "水泵每年检修一次"),
        ("Foreword. " + BODY, "The valve closes", "The valve closes"),
        (BODY.replace("yearly", "monthly"), "水泵每年检修一次", "水泵每年检修一次"),
        (BODY.replace("The pump is serviced yearly. ", ""), "The valve closes", "The valve closes"),
        # White space, width and marks are no difference.
        (
            BODY.replace("每年检修", "每年\n检修").replace("The", "An"),
            "水泵每年检修一次，由工程部负责。",
            "水泵每年\n检修一次，由工程部负责。",
        ),
        (
            BODY.replace("一次，由", "一次,由").replace("The", "An"),
            "水泵每年检修一次，由工程部负责。",
            "水泵每年检修一次,由工程部负责。",
        ),
        # Another word is one.
        (BODY.replace("每年", "每月"), "水泵每年检修一次", None),
        ("Something else entirely.", "水泵每年检修一次", None),
        ("", "The pump", None),
    ],
)
def test_a_passage_is_followed(new: str, words: str, found: str | None) -> None:
    assert follow(BODY, new, words) == found


def test_of_equal_passages_the_one_with_its_neighbours_is_taken() -> None:
    old = "Chapter one. See the note below.\nMen.\nChapter two. See the note below.\nWomen.\n"
    new = "Preface. " + old.replace("Men.", "Men and boys.")
    first = old.index("See the note below.")
    second = old.index("See the note below.", first + 1)
    spans = [(first, first + 19), (second, second + 19)]
    found = follow_spans(old, new, spans)
    assert found == [
        (new.index("See the note"), new.index("See the note") + 19),
        (new.rindex("See the note"), new.rindex("See the note") + 19),
    ]


def test_a_word_alone_is_not_taken_for_a_passage() -> None:
    assert follow("the end\nno", "a book with no end at all, and much more of it", "no") is None


def test_places_between_passages_are_followed() -> None:
    old = "First paragraph here.\nSecond paragraph here.\nThird paragraph here."
    at = old.index("\nThird")
    new = "A foreword.\n" + old.replace("First", "Another first")
    assert follow_spans(old, new, [(at, at)]) == [(new.index("\nThird"),) * 2]
    without_second = "A foreword.\n" + old.replace("\nSecond paragraph here.", "").replace(
        "First", "1st"
    )
    assert follow_spans(old, without_second, [(at, at)]) == [(without_second.index("\nThird"),) * 2]
    assert follow_spans(old, "Nothing of this is left over, at all.", [(at, at)]) == [None]


def test_both_ends_are_places() -> None:
    assert follow_spans("abc", "abcd and more", [(0, 0), (3, 3)]) == [(0, 0), (3, 3)]
    assert follow_spans("abc", "and more abc", [(3, 3)]) == [(12, 12)]
    assert follow_spans("", "new", [(0, 0)]) == [(0, 0)]


words = st.lists(st.sampled_from([*"abcdefgh", "泵", "年", " ", "\n", "。"]), max_size=40).map(
    "".join
)


@given(words, words, words, words)
def test_what_is_put_in_elsewhere_moves_nothing_else(
    before: str, passage: str, after: str, more: str
) -> None:
    passage = "<" + passage + "the very passage>"
    old, new = before + passage + after, before + more + passage + more + after
    span = follow_spans(old, new, [(len(before), len(before) + len(passage))])[0]
    assert span is not None
    assert new[slice(*span)] == passage


@given(st.text(max_size=50), st.text(max_size=50), st.data())
def test_what_is_found_is_the_same_or_looks_it(old: str, new: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(old)))
    end = data.draw(st.integers(start, len(old)))
    span = follow_spans(old, new, [(start, end)])[0]
    if span is not None:
        assert 0 <= span[0] <= span[1] <= len(new)
        assert start == end or span[0] < span[1]


def test_ten_megabytes_are_no_trouble() -> None:
    line = "第 {} 条：员工每年享有带薪年假。The pump is serviced yearly.\n"
    old = "".join(line.format(n) for n in range(100_000))
    new = "Title page.\n" + old.replace("第 5 条", "第五条") + "An index."
    spans = [(at := old.index(f"第 {n} 条"), at + 40) for n in range(1000, 90_000, 3000)]
    started = time.perf_counter()
    found = follow_spans(old, new, spans)
    assert time.perf_counter() - started < 10
    assert [new[slice(*span)] for span in found if span] == [old[slice(*span)] for span in spans]
