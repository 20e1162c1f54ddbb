"""Duplicates go, neighbours become one, no file takes all places, and one leg's gaps are seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.hits import Hit, Leg
from rag.stages.ranking import postprocess
from rag.stages.ranking.postprocess import (
    MAX_TOKENS,
    diversify,
    drop_duplicates,
    merge_neighbours,
    widen_top_k,
)
from rag.stages.text.normalize import NormalizedText, normalize_quote

LONG = (
    "The pump must be switched off before the filter is replaced, and the valve upstream of the "
    "pump has to be closed by hand until the pressure on the gauge has fallen to nothing at all."
)
HAN = "更换滤芯之前必须先关闭水泵电源，并手动关闭上游阀门，直到压力表读数完全回落为止，然后才可以拆下外壳。"

TRADITIONAL = "更換濾芯之前必須先關閉水泵電源，並手動關閉上游閥門，直到壓力表讀數完全回落爲止，然後才可以拆下外殼。"


def make(text: str, rank: int = 1, **values: object) -> Hit:
    given: dict[str, object] = {
        "chunk_id": rank,
        "revision": 1,
        "store_id": 1,
        "file_id": 1,
        "score": 1.0 / rank,
        "char_end": len(text),
        "token_count": 10,
    }
    return Hit(text=text, rank=rank, **(given | values))  # type: ignore[arg-type]


def texts(hits: list[Hit]) -> list[str]:
    return [hit.text for hit in hits]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LONG, LONG),
        (LONG, LONG.upper()),
        (LONG, LONG.replace(" ", "\n  ")),
        (HAN, HAN.replace("，", ",")),
        (HAN, TRADITIONAL),
        (LONG, LONG + " Then go on."),
        (LONG, "Note. " + LONG),
        (LONG, "\u00ad".join(LONG)),
        (HAN, "\u200b".join(HAN)),
        (LONG, LONG.translate({n: n + 0xFEE0 for n in range(ord("A"), ord("z"))})),
        (LONG.replace("f", "fi"), LONG.replace("f", "ﬁ")),
        (LONG + " 10² m", (LONG + " 10² m").upper()),
        ("短", "短。".rstrip("。")),
    ],
)
def test_the_same_text_is_kept_once(first: str, second: str) -> None:
    kept, n_dropped = drop_duplicates([make(first, 1), make(second, 2, file_id=2)])
    assert (texts(kept), n_dropped) == ([first], 1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LONG, LONG.replace("must be", "must not be")),
        (LONG + " Wait 5 minutes.", LONG + " Wait 6 minutes."),
        (LONG + " See HX-400A.", LONG + " See HX-400B."),
        (LONG + " It weighs 10² kg.", LONG + " It weighs 102 kg."),
        (LONG, " ".join(reversed(LONG.split()))),
        (HAN, HAN.replace("必须", "不必")),
        (HAN + "等待三分钟。", HAN + "等待五分钟。"),
        (LONG, LONG[:90]),
        (LONG, HAN),
        ("a", "b"),
    ],
)
def test_texts_that_say_something_else_are_both_kept(first: str, second: str) -> None:
    kept, n_dropped = drop_duplicates([make(first, 1), make(second, 2)])
    assert (texts(kept), n_dropped) == ([first, second], 0)


@given(st.lists(st.text(max_size=40), max_size=12))
def test_what_is_kept_is_in_order_and_nothing_is_lost_but_repeats(values: list[str]) -> None:
    hits = [make(text, rank) for rank, text in enumerate(values, start=1)]
    kept, n_dropped = drop_duplicates(hits)
    assert len(kept) + n_dropped == len(hits)
    assert [hit.rank for hit in kept] == sorted(hit.rank for hit in kept)
    assert {hit.text for hit in kept} <= set(values)
    assert drop_duplicates(kept) == (kept, 0)


def test_texts_are_folded_only_where_little_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[str] = []

    def fold(text: str) -> NormalizedText:
        folded.append(text)
        return normalize_quote(text)

    monkeypatch.setattr(postprocess, "normalize_quote", fold)
    other_words = (
        "Keep a clean cloth beside the casing, since oil leaks out of the gasket while it cools."
    )
    apart = [LONG, HAN, LONG + " 1", LONG + " 2", other_words]
    assert drop_duplicates([make(text) for text in apart])[1] == 0
    assert folded == []
    assert drop_duplicates([make(text) for text in (LONG, LONG.upper(), HAN)])[1] == 1
    assert sorted(folded) == sorted([LONG, LONG.upper()])


@given(
    text=st.text(
        st.sampled_from("pump check locks 水泵，关闭阀门一侧 x"), min_size=20, max_size=300
    ),
    edits=st.lists(st.tuples(st.integers(0, 299), st.sampled_from("qzs水仪 ，")), max_size=12),
)
def test_nearly_the_same_is_told_by_shingles_alone(text: str, edits: list[tuple[int, str]]) -> None:
    changed = list(text)
    for at, character in edits:
        changed[at % len(changed)] = character
    other = "".join(changed)
    first, second = (shingles(normalize_quote(one).text) for one in (text, other))
    is_same = len(first & second) >= 0.9 * len(first | second)
    hits = [make(text, 1), make(other, 2)]
    assert drop_duplicates(hits)[1] == int(is_same)


def shingles(folded: str) -> set[str]:
    return {folded[at : at + 5] for at in range(max(1, len(folded) - 4))}


CANONICAL = "First part. Second part.\n\nThird part.\fFourth part. " + "Far away. " * 20


def span(start: int, end: int, rank: int, **values: object) -> Hit:
    return make(CANONICAL[start:end], rank, char_start=start, char_end=end, **values)


def read(file_id: int, start: int, end: int) -> str:
    return CANONICAL[start:end]


def test_touching_overlapping_and_nearly_touching_chunks_become_one() -> None:
    hits = [
        span(26, 37, 1, page_first=1, page_last=1, heading_path=("A", "B"), matched_terms=("x",)),
        span(12, 24, 2, page_first=1, page_last=1, heading_path=("A", "C")),
        span(0, 14, 3, page_first=1, page_last=1, heading_path=("A",)),
        span(38, 50, 4, page_first=2, page_last=2, heading_path=("A",), matched_terms=("y",)),
    ]
    (merged,), n_merged = merge_neighbours(hits, read)
    assert n_merged == 3
    assert (merged.char_start, merged.char_end) == (0, 50)
    assert merged.text == CANONICAL[0:50]
    assert (merged.chunk_id, merged.rank, merged.score) == (1, 1, 1.0)
    assert (merged.page_first, merged.page_last, merged.token_count) == (1, 2, 40)
    assert (merged.heading_path, merged.matched_terms) == (("A",), ("x", "y"))
    assert merged.data is not None
    assert [part["chunk_id"] for part in merged.data["chunks"]] == [3, 2, 1, 4]
    assert merged.data["chunks"][0] == {
        "chunk_id": 3,
        "revision": 1,
        "char_start": 0,
        "char_end": 14,
    }
    assert Hit.from_dict(merged.as_dict()).text == merged.text


def test_a_chunk_within_another_goes_into_it() -> None:
    (merged,), n_merged = merge_neighbours([span(0, 24, 2), span(6, 11, 1)], read)
    assert (merged.text, merged.chunk_id, n_merged) == (CANONICAL[:24], 1, 1)


@pytest.mark.parametrize(
    "other",
    [
        span(12, 24, 2, file_id=2),
        span(12, 24, 2, store_id=2),
        span(12, 24, 2, revision=2),
        span(12, 24, 2, token_count=MAX_TOKENS),
        span(12, 24, 2, chunk_id=None),
        span(60, 80, 2),
        replace(span(12, 24, 2), text="edited in place, longer"),
        replace(span(12, 24, 2), text="XXcond part."),
    ],
    ids=["file", "store", "edited", "long", "no chunk", "far", "other length", "other text"],
)
def test_what_does_not_belong_together_stays_apart(other: Hit) -> None:
    first = span(0, 12, 1)
    if other.text == "XXcond part.":
        # Found while the file was indexed anew: overlap and canonical text disagree.
        first = span(0, 14, 1)
    assert merge_neighbours([first, other], read) == ([first, other], 0)


def test_a_file_that_is_gone_or_changed_merges_nothing_over_a_gap() -> None:
    hits = [span(12, 24, 1), span(26, 37, 2)]
    for text in ("", CANONICAL[12:30], "x" * 25):
        assert merge_neighbours(hits, lambda file_id, start, end, text=text: text)[1] == 0
    assert merge_neighbours([span(0, 5, 1), span(6, 11, 2)], read)[1] == 1
    assert merge_neighbours([span(0, 5, 1), span(8, 11, 2)], read)[1] == 0, "letters lie between"


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 40)), max_size=10))
def test_merged_texts_are_spans_of_the_canonical_text(places: list[tuple[int, int]]) -> None:
    hits = [
        span(start, min(len(CANONICAL), start + n), rank)
        for rank, (start, n) in enumerate(places, start=1)
    ]
    made, n_merged = merge_neighbours(hits, read)
    assert len(made) + n_merged == len(hits)
    for hit in made:
        assert CANONICAL[hit.char_start : hit.char_end] == hit.text
    covered = {at for hit in hits for at in range(hit.char_start, hit.char_end)}
    held = {at for hit in made for at in range(hit.char_start, hit.char_end)}
    assert covered <= held
    assert [hit.rank for hit in made] == sorted(hit.rank for hit in made)


def of_files(*rows: tuple[int, float]) -> list[Hit]:
    return [
        make(f"text {rank}", rank, file_id=file_id, score=score)
        for rank, (file_id, score) in enumerate(rows, start=1)
    ]


def test_a_near_hit_of_another_file_takes_a_place() -> None:
    hits = of_files((1, 1.0), (1, 0.99), (1, 0.98), (1, 0.97), (1, 0.96), (2, 0.95), (3, 0.94))
    chosen = diversify(hits, 5)
    assert [hit.file_id for hit in chosen] == [1, 1, 1, 2, 3]
    assert [hit.rank for hit in chosen] == [1, 2, 3, 4, 5]
    assert chosen[0].text == "text 1"


@pytest.mark.parametrize("score", [0.5, 0.0, -1.0])
def test_a_far_hit_of_another_file_takes_none(score: float) -> None:
    hits = of_files((1, 1.0), (1, 0.99), (1, 0.98), (1, 0.97), (2, score))
    assert [hit.file_id for hit in diversify(hits, 4)] == [1, 1, 1, 1]


def test_one_file_alone_keeps_all_places_and_scores_are_not_needed() -> None:
    hits = of_files((1, 1.0), (1, 0.9), (1, 0.8))
    assert len(diversify(hits, 3)) == 3
    unscored = [replace(hit, score=None) for hit in hits]
    assert [hit.rank for hit in diversify(unscored, 2)] == [1, 2]
    assert diversify([], 3) == []


@given(st.lists(st.tuples(st.integers(1, 3), st.floats(-1, 1)), max_size=15), st.integers(1, 12))
def test_there_are_as_many_as_wanted_and_none_twice(
    rows: list[tuple[int, float]], top_k: int
) -> None:
    rows.sort(key=lambda row: -row[1])
    hits = of_files(*rows)
    chosen = diversify(hits, top_k)
    assert len(chosen) == min(top_k, len(hits))
    assert len({hit.text for hit in chosen}) == len(chosen)
    assert not chosen or chosen[0].text == hits[0].text


@pytest.mark.parametrize(
    ("query", "texts", "top_k"),
    [
        ("pump", ["one", "two", "three", "four", "five"], 3),
        ("pump", ["one", "two", "three", HAN, "five"], 5),
        ("pump", ["one", "two", "three", "four", HAN], 5),
        ("pump", ["one", "two", "three", "four", "five", HAN], 3),
        ("pump", [HAN, "two", "three", "four", "five"], 3),
        ("水泵过热", [HAN, HAN, HAN, "four"], 5),
        ("水泵过热", ["one", "two", "three"], 3),
    ],
)
def test_a_small_number_grows_for_a_hit_in_the_other_language(
    query: str, texts: list[str], top_k: int
) -> None:
    hits = [replace(make(text), vector=Leg(1, 0.5)) for text in texts]
    assert widen_top_k(query, hits, 3) == top_k
    assert widen_top_k(query, hits, 10) == 10
    by_words = [make(text) for text in texts]
    assert widen_top_k(query, by_words, 3) == 3, "the same words, whatever the language"
