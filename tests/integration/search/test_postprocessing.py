"""Hits are refined by one statement at most, and what is merged is the canonical text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag import models
from rag.core.hits import Hit
from rag.core.types import RetrievalSettings
from rag.providers.postgres.db.connections import fetch_planned
from rag.services.search import postprocessing
from rag.services.search.postprocessing import PostprocessedHits, _runs, postprocess_hits
from rag.stages.ranking.postprocess import MAX_GAP
from tests.factories import FileFactory

pytestmark = pytest.mark.django_db
WORDS = "alpha beta gamma\ndelta epsilon zeta\n\neta theta iota"
OTHER = str.maketrans("aeiot", "oiaeu")


def hit(file: Any, first: str, last: str, rank: int, **values: Any) -> Hit:
    start = WORDS.index(first)
    end = WORDS.index(last) + len(last)
    given: dict[str, Any] = {
        "chunk_id": 100 * file.pk + rank,
        "revision": 1,
        "store_id": file.store_id,
        "file_id": file.pk,
        "score": 1.0 / rank,
        "char_start": start,
        "char_end": end,
        "token_count": 10,
        "text": file.canonical_text[start:end],
        "rank": rank,
    }
    return Hit(**(given | values))


def make_file(**values: Any) -> models.File:
    made: models.File = FileFactory(**{"canonical_text": WORDS, **values})
    return made


def refine(hits: list[Hit]) -> PostprocessedHits:
    return postprocess_hits(query="q", hits=hits, top_k=5, settings=RetrievalSettings(top_k=5))


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that were run, which are planned ahead and no cursor of Django's sees."""
    run: list[str] = []

    def fetch(statement: str, params: Any) -> list[tuple[Any, ...]]:
        run.append(statement)
        return fetch_planned(statement, params)

    monkeypatch.setattr(postprocessing, "fetch_planned", fetch)
    return run


def test_neighbours_of_several_files_are_read_by_one_statement(
    statements: list[str], django_assert_num_queries: Any
) -> None:
    one, two = make_file(), make_file(canonical_text=WORDS.translate(OTHER))
    hits = [
        hit(one, "alpha", "gamma", 1),
        hit(two, "delta", "zeta", 2),
        hit(one, "delta", "zeta", 3),
        hit(two, "eta theta", "iota", 4),
        hit(one, "eta theta", "theta", 5),
    ]
    with django_assert_num_queries(0):
        refined = refine(hits)
    assert len(statements) == 1
    assert [each.text for each in refined.hits] == [
        "alpha beta gamma\ndelta epsilon zeta\n\neta theta",
        "delta epsilon zeta\n\neta theta iota".translate(OTHER),
    ]
    assert refined.n_merged == 3


def test_hits_that_stand_apart_or_overlap_need_no_statement(
    statements: list[str], django_assert_num_queries: Any
) -> None:
    file = make_file()
    apart = [hit(file, "alpha", "alpha", 1), hit(file, "eta theta", "iota", 2)]
    overlapping = [hit(file, "alpha", "beta", 1), hit(file, "beta", "gamma", 2)]
    with django_assert_num_queries(0):
        assert refine(apart).n_merged == 0
        refined = refine(overlapping)
    assert statements == []
    assert [one.text for one in refined.hits] == ["alpha beta gamma"]


def test_a_text_that_changed_meanwhile_joins_nothing() -> None:
    file = make_file()
    hits = [hit(file, "alpha", "gamma", 1), hit(file, "delta", "zeta", 2)]
    models.File.objects.filter(pk=file.pk).update(canonical_text=WORDS.replace("beta", "BETA"))
    assert [one.text for one in refine(hits).hits] == [one.text for one in hits]
    models.File.objects.filter(pk=file.pk).delete()
    assert refine(hits).n_merged == 0


def test_an_edited_chunk_between_two_neighbours_does_not_part_them() -> None:
    file = make_file()
    hits = [
        hit(file, "alpha", "gamma", 1),
        hit(file, "gamma", "delta", 2, revision=2),
        hit(file, "delta", "zeta", 3),
    ]
    refined = refine(hits)
    assert [one.text for one in refined.hits] == [
        "alpha beta gamma\ndelta epsilon zeta",
        "gamma\ndelta",
    ]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 300), st.integers(1, 40)), max_size=12))
def test_runs_hold_every_pair_of_neighbours_and_no_lone_hit(
    spans: list[tuple[int, int, int]],
) -> None:
    hits = [
        Hit(text="x", rank=1, file_id=file_id, char_start=start, char_end=start + length)
        for file_id, start, length in spans
    ]
    runs = _runs(hits)
    for run in runs:
        inside = [
            one
            for one in hits
            if one.file_id == run[0] and run[1] <= one.char_start and one.char_end <= run[2]
        ]
        assert len(inside) > 1
    for left in hits:
        for right in hits:
            is_near = (
                left.file_id == right.file_id
                and left is not right
                and (0 <= right.char_start - left.char_end <= MAX_GAP)
            )
            held = any(
                run[0] == left.file_id and run[1] <= left.char_start and right.char_end <= run[2]
                for run in runs
            )
            assert held or not is_near
