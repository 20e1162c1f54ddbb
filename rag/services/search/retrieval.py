"""Retrieval: query analysis, search, fallback to hybrid, deduplication, merging and reranking.

Mode by intent, number by complexity, files by what the query names; afterwards duplicates go,
neighbours become one, and no file takes all places. Every decision is in the metadata.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.db import connection

from rag import models
from rag.core.access import Scope
from rag.core.analysis import QueryAnalysis
from rag.core.errors import InvalidInputError, UnknownNameError
from rag.core.hits import Hit
from rag.core.types import MODES, RetrievalSettings, SearchResult
from rag.services.search.engine import validated_query
from rag.services.search.query_analysis import QueryAnalyzer, merged_vocabulary
from rag.services.search.query_log import log_query
from rag.services.search.reranking import rerank_by_settings, rerank_pool_size
from rag.services.search.result_cache import cached_search
from rag.services.search.targets import content_types_for_entities
from rag.services.stores import stores_with_vocabulary
from rag.stages.ranking.coverage import find_coverage_gap
from rag.stages.ranking.diversify import diversify, drop_duplicates
from rag.stages.ranking.merge import MAX_GAP, merge_neighbours

# All texts between neighbours by one statement, whichever files they are in.
_READ = """
SELECT w.file_id, w.first, substr(f.canonical_text, w.first + 1, w.last - w.first)
FROM unnest(%s::bigint[], %s::int[], %s::int[]) AS w(file_id, first, last)
  JOIN rag_file f ON f.id = w.file_id
"""


@dataclass(frozen=True, slots=True)
class PostprocessedHits:
    """Hits numbered from 1, how many repeated others and how many went into a neighbour."""

    hits: tuple[Hit, ...]
    n_dropped: int
    n_merged: int


def postprocess_hits(*, hits: Sequence[Hit], top_k: int) -> PostprocessedHits:
    """Return at most ``top_k``: without duplicates, neighbours merged, of several files."""
    distinct, n_dropped = drop_duplicates(hits)
    merged, n_merged = merge_neighbours(distinct, _Canonical(_runs(distinct)))
    return PostprocessedHits(tuple(diversify(merged, top_k)), n_dropped, n_merged)


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


MAX_CANDIDATES = 200
SearchEngine = Callable[..., SearchResult]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The last search's ``result``, the ``hits`` made of it, and every decision as JSON."""

    result: SearchResult
    hits: tuple[Hit, ...]
    analysis: QueryAnalysis
    metadata: dict[str, Any] = field(default_factory=dict)


def retrieve(
    *,
    query: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    retrieval_mode: str = "auto",
    search_engine: SearchEngine = cached_search,
) -> Retrieval:
    """Return what ``query`` should bring to a reader or a model.

    ``retrieval_mode`` wins over the settings' mode, that over the intent's. A leg that the intent
    chose and that has missed something gives way to both legs; a filter by entities that leaves
    nothing is taken back: ``metadata`` says so. ``search_engine`` is called like ``search``.
    Raises UnknownNameError for a mode that nobody knows.
    """
    started = time.perf_counter()
    if retrieval_mode not in MODES:
        raise UnknownNameError("retrieval mode", retrieval_mode, MODES)
    query = validated_query(query=query)
    if not stores:
        raise InvalidInputError("No store was chosen.", hint="Name at least one.")
    settings = settings or stores[0].retrieval_settings
    seen = stores_with_vocabulary(stores=stores, scope=scope)
    analysis = QueryAnalyzer().analyze(query, vocabulary=merged_vocabulary(stores=seen))
    if retrieval_mode != "auto":
        settings = settings.but(mode=retrieval_mode)
    if settings.top_k is None:
        settings = settings.but(top_k=analysis.top_k)
    types = settings.content_types or content_types_for_entities(
        analysis=analysis, stores=seen, scope=scope
    )
    analyzed = time.perf_counter()
    run = partial(search_engine, query=query, scope=scope, stores=stores, is_logged=False)
    retrieval = _searched(run, analysis, settings, types)
    times = retrieval.metadata["timings_ms"]
    times["analyze"] = (analyzed - started) * 1e3
    times["total"] = (time.perf_counter() - started) * 1e3
    searched = retrieval.result.store_ids
    retrieval.metadata["stores"] = [store.slug for store in stores if store.pk in searched]
    told = replace(retrieval.result, hits=retrieval.hits, timings_ms=times)
    log_query(result=told, scope=scope)
    return retrieval


def _searched(
    run: SearchEngine, analysis: QueryAnalysis, settings: RetrievalSettings, types: Sequence[str]
) -> Retrieval:
    started, is_free = time.perf_counter(), settings.mode == "auto"
    top_k, mode = settings.top_k or analysis.top_k, analysis.mode if is_free else settings.mode
    # More than wanted, since some will repeat others; what is left is ranked again, once.
    n_kept = rerank_pool_size(top_k=top_k, settings=settings)
    n = min(MAX_CANDIDATES, 2 * n_kept + 4)
    wanted = settings.but(mode=mode, top_k=n, content_types=tuple(types), rerank="none")
    result, reasons = run(settings=wanted), {}
    if types and not settings.content_types and not result.hits:
        wanted = wanted.but(content_types=())
        result, reasons = run(settings=wanted), {"content_types": "nothing_found"}
    if is_free and (gap := find_coverage_gap(mode, analysis, result.hits)):
        result, reasons = run(settings=wanted.but(mode="hybrid")), {**reasons, "mode": gap}
    searched = time.perf_counter()
    refined = postprocess_hits(hits=result.hits, top_k=n_kept)
    ended = time.perf_counter()
    ranked, rerank = rerank_by_settings(query=result.query, hits=refined.hits, settings=settings)
    hits = tuple(ranked[:top_k])
    metadata = {
        "mode": result.mode,
        "query_intent": analysis.intent,
        **analysis.as_dict(),
        "content_types": list(wanted.content_types) or None,
        "top_k": top_k,
        "total_found": len(result.hits),
        "returned": len(hits),
        "rerank": rerank or None,
        "fallback": "hybrid" if "mode" in reasons else None,
        "fallback_reasons": reasons,
        "dropped_duplicates": refined.n_dropped,
        "merged": refined.n_merged,
        "timings_ms": {
            **result.timings_ms,
            "search": (searched - started) * 1e3,
            "refine": (ended - searched) * 1e3,
            "rerank": (time.perf_counter() - ended) * 1e3,
        },
    }
    return Retrieval(replace(result, top_k=top_k, rerank=rerank), hits, analysis, metadata)
