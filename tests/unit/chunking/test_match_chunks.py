"""People's work is carried to a new text: all of it, each once, no two in one place."""

from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rag.core.documents import ChunkRule, ParsedDocument
from rag.stages.chunking.chunk import chunk_document
from rag.stages.chunking.match_chunks import ManualEdit, MatchedEdits, match_chunks
from tests.fakes.words_embedder import WordTokenizer

SENTENCES = [f"Sentence {n} tells of pump {n * 7} and valve {n * 13}. " for n in range(40)]
OLD = "".join(SENTENCES)


def span(key: int, text: str = OLD, **values: int) -> ManualEdit:
    start = text.index(SENTENCES[key])
    end = start + len(SENTENCES[key]) - 1
    return ManualEdit(key, values.get("char_start", start), start, end, chunk_id=key)


def spot(key: int, at: int) -> ManualEdit:
    return ManualEdit(key, at, at, at, chunk_id=key)


def test_the_same_text_keeps_all_where_it_is() -> None:
    touched = [span(3), span(9), spot(99, 17), ManualEdit(5, 0, 0, 10)]
    matched = match_chunks(OLD, OLD, touched)
    assert matched.homeless == ()
    assert {(one.touched.key, one.char_start, one.char_end) for one in matched.kept} == {
        (one.key, one.char_start, one.char_end) for one in touched
    }
    assert all(one.is_same for one in matched.kept)


def test_what_a_chunk_repeats_of_the_one_before_goes_with_it() -> None:
    start = OLD.index("valve 39")
    touched = span(4, char_start=start)
    new = "A preface that was not there. " + OLD
    placed = match_chunks(OLD, new, [touched]).kept[0]
    assert new[placed.char_start : placed.own_start] == OLD[start : touched.own_start]
    assert (placed.own_start, placed.is_same) == (touched.own_start + 30, True)


def test_without_its_overlap_a_passage_is_still_found_but_is_not_the_same() -> None:
    start = OLD.index("valve 39")
    new = "A preface. " + OLD.replace("valve 39", "tap 40")
    placed = match_chunks(OLD, new, [span(4, char_start=start)]).kept[0]
    assert (placed.char_start, placed.is_same) == (placed.own_start, False)
    assert new[placed.own_start : placed.char_end] == SENTENCES[4].strip()


def test_what_is_gone_is_homeless_near_where_it_was() -> None:
    new = "A preface. " + OLD.replace(SENTENCES[7], "Something quite different. ")
    matched = match_chunks(OLD, new, [span(7), span(8)])
    assert [one.touched.key for one in matched.kept] == [8]
    (gone,) = matched.homeless
    assert gone.touched.key == 7
    assert gone.char_start == new.index("Something")
    assert matched.holes == (match_chunks(OLD, new, [span(8)]).holes[0],)


def test_two_passages_that_became_one_are_not_both_kept() -> None:
    old = "Read the manual first. Read the manual first. "
    new = "Do read the manual. Read the manual first."
    touched = [ManualEdit(1, 0, 0, 22, 1), ManualEdit(2, 23, 23, 45, 2)]
    matched = match_chunks(old, new, touched)
    assert (len(matched.kept), len(matched.homeless)) == (1, 1)


def test_an_added_chunk_is_no_hole() -> None:
    at = OLD.index(SENTENCES[5])
    matched = match_chunks(OLD, "Preface. " + OLD, [spot(1, at), span(4)])
    assert [one.char_start for one in matched.kept if one.touched.is_added] == [at + 9]
    assert len(matched.holes) == 1


edits = st.lists(
    st.tuples(st.integers(0, 39), st.sampled_from(["drop", "double", "before", "change"])),
    max_size=12,
)


def changed(steps: list[tuple[int, str]]) -> str:
    lines = list(SENTENCES)
    for at, step in steps:
        line = lines[at]
        lines[at] = {
            "drop": "",
            "double": line * 2,
            "before": "More was said. " + line,
            "change": line.replace("pump", "fan"),
        }[step]
    return "".join(lines)


@given(edits, st.sets(st.integers(0, 39)), st.sets(st.integers(0, len(OLD)), max_size=5))
def test_nothing_is_lost_and_nothing_overlaps(
    steps: list[tuple[int, str]], keys: set[int], spots: set[int]
) -> None:
    new = changed(steps)
    touched = [span(key) for key in keys] + [spot(100 + at, at) for at in spots]
    matched = match_chunks(OLD, new, touched)
    seen = [one.touched.key for one in (*matched.kept, *matched.homeless)]
    assert sorted(seen) == sorted(one.key for one in touched)
    assert all(left[1] <= right[0] for left, right in pairwise(matched.holes))
    dropped = {at for at, step in steps if step in ("drop", "change")}
    for one in matched.kept:
        if one.touched.is_added:
            continue
        assert new[one.own_start : one.char_end] == SENTENCES[one.touched.key].strip()
    for one in matched.homeless:
        assert 0 <= one.char_start <= len(new)
        assert one.touched.key in dropped or one.touched.is_added


def cut(
    text: str, rule: ChunkRule, holes: tuple[tuple[int, int], ...]
) -> list[tuple[int, int, int]]:
    document = ParsedDocument("txt", text, "test/1")
    chunks = chunk_document(document, rule, WordTokenizer(), holes)
    return [(chunk.ordinal, chunk.char_start, chunk.char_end) for chunk in chunks]


@given(edits, st.sets(st.integers(0, 39), max_size=8), st.integers(50, 120), st.integers(0, 30))
def test_the_file_is_cut_around_what_is_kept(
    steps: list[tuple[int, str]], keys: set[int], size: int, overlap: int
) -> None:
    new = changed(steps)
    matched: MatchedEdits = match_chunks(OLD, new, [span(key) for key in keys])
    chunks = cut(new, ChunkRule(size, overlap), matched.holes)
    covered = set()
    for _, start, end in chunks:
        assert all(end <= low or high <= start for low, high in matched.holes)
        covered.update(range(start, end))
    for low, high in matched.holes:
        covered.update(range(low, high))
    assert not "".join(c for at, c in enumerate(new) if at not in covered).strip()
    # Each hole keeps an ordinal free, at its place in the order.
    free = sorted(set(range(len(chunks) + len(keys))) - {ordinal for ordinal, _, _ in chunks})
    free = free[: len(matched.holes)]
    order = sorted(
        [
            *[(end, ordinal) for ordinal, _, end in chunks],
            *[(high, ordinal) for (_, high), ordinal in zip(matched.holes, free, strict=True)],
        ]
    )
    assert [ordinal for _, ordinal in order] == list(range(len(order)))


@given(st.integers(50, 120), st.integers(0, 40), st.sets(st.integers(0, 30), max_size=6))
def test_holes_on_the_borders_of_chunks_move_no_others(
    size: int, overlap: int, taken: set[int]
) -> None:
    document, rule = ParsedDocument("txt", OLD, "test/1"), ChunkRule(size, overlap)
    whole = list(chunk_document(document, rule, WordTokenizer()))
    holes = [(c.own_start, c.char_end) for c in whole if c.ordinal in taken]
    rest = list(chunk_document(document, rule, WordTokenizer(), holes))
    assert [(c.ordinal, c.own_start, c.char_end) for c in rest] == [
        (c.ordinal, c.own_start, c.char_end) for c in whole if c.ordinal not in taken
    ]
    for chunk in rest:
        assert OLD[chunk.char_start : chunk.char_end] == chunk.text
        assert chunk.token_count == WordTokenizer().count(chunk.text)
        if chunk.ordinal - 1 not in taken:
            assert chunk == whole[chunk.ordinal]


def test_many_holes_in_a_long_text_take_no_longer() -> None:
    text = OLD * 200
    document, rule = ParsedDocument("txt", text, "test/1"), ChunkRule(50, 10)
    started = time.perf_counter()
    whole = list(chunk_document(document, rule, WordTokenizer()))
    once = time.perf_counter() - started
    holes = [(c.own_start, c.char_end) for c in whole[::2]]
    started = time.perf_counter()
    rest = list(chunk_document(document, rule, WordTokenizer(), holes))
    assert time.perf_counter() - started < 3 * once + 1
    assert len(rest) == len(whole) // 2


def test_a_hole_over_a_heading_and_holes_side_by_side() -> None:
    text = "alpha beta gamma delta"
    assert cut(text, ChunkRule(), ((0, 5), (5, 10))) == [(2, 11, 22)]
    assert cut(text, ChunkRule(), ((0, 22),)) == []
    assert cut(text, ChunkRule(), ((11, 22),)) == [(0, 0, 10)]
    assert cut(text, ChunkRule(), ()) == [(0, 0, 22)]
