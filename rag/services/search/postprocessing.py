"""Postprocessing of hits: near-duplicates go, neighbours merge, no file takes all places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from rag.core.hits import Hit
from rag.core.types import RetrievalSettings
from rag.services.search.reranking import rerank_pool_size
from rag.stages.ranking.diversify import diversify, drop_duplicates, widen_top_k
from rag.stages.ranking.merge import MAX_GAP, merge_neighbours

# All texts between neighbours by one statement, whichever files they are in.
_READ = """
SELECT w.file_id, w.first, substr(f.canonical_text, w.first + 1, w.last - w.first)
FROM unnest(%s::bigint[], %s::int[], %s::int[]) AS w(file_id, first, last)
  JOIN rag_file f ON f.id = w.file_id
"""


@dataclass(frozen=True, slots=True)
class PostprocessedHits:
    """Hits numbered from 1, how many of them to show, how many were dropped and merged."""

    hits: tuple[Hit, ...]
    top_k: int
    n_dropped: int
    n_merged: int


def postprocess_hits(
    *, query: str, hits: Sequence[Hit], top_k: int, settings: RetrievalSettings
) -> PostprocessedHits:
    """Return distinct hits of several files, as many as the reranker of ``settings`` reads.

    ``top_k`` is what the query's complexity asks for; where the settings name no number it grows
    for results in another language than the query's.
    """
    distinct, n_dropped = drop_duplicates(hits)
    merged, n_merged = merge_neighbours(distinct, _Canonical(_runs(distinct)))
    if settings.top_k is None:
        top_k = widen_top_k(query, merged, top_k)
    n_kept = rerank_pool_size(top_k=top_k, settings=settings)
    return PostprocessedHits(tuple(diversify(merged, n_kept)), top_k, n_dropped, n_merged)


def _runs(hits: Sequence[Hit]) -> list[tuple[int, int, int]]:
    """Return where hits stand close together: file, first character, last."""
    spans = sorted((hit.file_id, hit.char_start, hit.char_end) for hit in hits if hit.file_id)
    runs: list[tuple[int, int, int]] = []
    lone = True
    for file_id, start, end in spans:
        if runs and runs[-1][0] == file_id and start - runs[-1][2] <= MAX_GAP:
            runs[-1] = (file_id, runs[-1][1], max(runs[-1][2], end))
            lone = False
            continue
        if runs and lone:
            runs.pop()
        runs.append((file_id, start, end))
        lone = True
    return runs[:-1] if lone else runs


class _Canonical:
    """The texts of runs, read when the first is asked for; others are empty."""

    def __init__(self, runs: Sequence[tuple[int, int, int]]) -> None:
        self._runs = runs
        self._texts: dict[tuple[int, int], str] | None = None

    def __call__(self, file_id: int, start: int, end: int) -> str:
        if self._texts is None:
            self._texts = _read(self._runs)
        for run_id, first, last in self._runs:
            if run_id == file_id and first <= start and end <= last:
                text = self._texts.get((file_id, first), "")
                return text[start - first : end - first]
        return ""


def _read(runs: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int], str]:
    with connection.cursor() as cursor:
        cursor.execute(_READ, [list(column) for column in zip(*runs, strict=True)])
        return {(file_id, first): text for file_id, first, text in cursor.fetchall()}
