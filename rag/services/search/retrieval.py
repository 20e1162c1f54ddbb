"""Retrieval: the one door to search, for answers, agents, flows, APIs, evaluation and hit tests.

Analysis, parts of a question, hybrid search, thresholds, deduplication, merging, reranking,
confidence, answerability; behind the result cache.
Every decision is in the metadata.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from rag import models
from rag.core.access import Scope
from rag.core.analysis import Answerability, QueryAnalysis
from rag.core.errors import InvalidInputError
from rag.core.hits import Hit
from rag.core.ports import FileFilter
from rag.core.types import RetrievalSettings, SearchResult
from rag.services.search.confidence import (
    filter_by_threshold,
    search_answerability,
    search_confidence,
)
from rag.services.search.decomposition import search_parts
from rag.services.search.document_lookup import NamedDocuments, lookup_documents
from rag.services.search.engine import Candidates, StageTimer, run_search, validated_query
from rag.services.search.postprocessing import (
    PostprocessedHits,
    postprocess_hits,
    rerank_by_settings,
    rerank_pool_size,
)
from rag.services.search.query_analysis import (
    QueryAnalyzer,
    content_types_for_entities,
    merged_vocabulary,
)
from rag.services.search.query_log import log_query
from rag.services.search.result_cache import fetch_result, normalize_query, retrieval_key
from rag.services.stores import stores_with_vocabulary
from rag.stages.query.decompose import decompose_question
from rag.stages.query.file_question import parse_document_question

MAX_CANDIDATES = 200
# A passage of the template parent and child has so many chunks, unless its options say otherwise.
WIDENED = 4
# What is searched for each part of a question, unless the settings name a number.
PART_HITS = 5
SearchEngine = Callable[..., Candidates]
Purpose = Literal["search", "answer", "test", "evaluation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalRequest:
    """One query: who asks, in which stores and files, by which settings."""

    query: str
    scope: Scope
    stores: Sequence[models.Store]
    settings: RetrievalSettings
    files: FileFilter | None = None
    engine: SearchEngine = run_search


def retrieve(
    *,
    query: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    files: FileFilter | None = None,
    purpose: Purpose = "search",
) -> SearchResult:
    """Return what ``query`` should bring to a reader or a model out of ``stores``.

    ``settings`` None takes the first store's own; their ``top_k`` None takes 3, 5 or 10 by the
    query's complexity and languages; mode auto asks both legs, for a query of codes, quotes and
    titles alone its words. ``files`` alone are found, past the settings' filters. A ``search``
    is cached and logged, an ``answer`` cached and logged by whoever writes it, a ``test`` logged,
    an ``evaluation`` neither. Raises InvalidInputError for an empty query and a store at Gemini.
    """
    if not stores:
        raise InvalidInputError("No store was chosen.", hint="Name at least one.")
    for store in stores:
        # One at Gemini tells no ranks.
        store.require_local()
    return run_retrieval(
        RetrievalRequest(
            query=query,
            scope=scope,
            stores=stores,
            settings=settings or stores[0].retrieval_settings,
            files=files,
        ),
        purpose=purpose,
    )


def run_retrieval(request: RetrievalRequest, *, purpose: Purpose = "search") -> SearchResult:
    """Return the result of a request; an engine other than the own is never cached."""
    started = time.perf_counter()
    query = validated_query(query=request.query)
    # One form for all spellings, so that a cached result is theirs too.
    request = replace(request, query=normalize_query(query))
    work = partial(_retrieve_fresh, request)
    if purpose in ("search", "answer") and request.engine is run_search:
        scope, stores, settings = request.scope, request.stores, request.settings
        key = retrieval_key(request.query, scope, stores, settings, request.files)
        result = fetch_result(key, work)
    else:
        result = work()
    total_ms = (time.perf_counter() - started) * 1e3
    spent_ms = total_ms - result.timings_ms.get("total", 0.0)
    timings_ms = {**result.timings_ms, "cache": spent_ms, "total": total_ms}
    slugs = [store.slug for store in request.stores if store.pk in result.store_ids]
    metadata = {**result.metadata, "stores": slugs, "timings_ms": timings_ms}
    result = replace(result, query=query, timings_ms=timings_ms, metadata=metadata)
    if purpose in ("search", "test"):
        log_query(result=result, scope=request.scope)
    return result


@dataclass(frozen=True, slots=True)
class _Search:
    """What the index was asked, what it proposed, and which wishes were taken back, and why.

    ``n_below`` candidates of the last try fell below a threshold.
    """

    settings: RetrievalSettings
    found: Candidates
    reasons: dict[str, str] = field(default_factory=dict)
    n_below: int = 0


def _retrieve_fresh(request: RetrievalRequest) -> SearchResult:
    """Return the hits of a question, and of each of its parts where it has several."""
    found = _retrieve_whole(request)
    settings = request.settings
    if settings.decomposition == "none" or found.mode == "lookup":
        return found
    parts = decompose_question(request.query)
    if parts is None:
        return found
    started = time.perf_counter()
    # The parts' few hits take turns with those of the whole, which alone are ranked again.
    part_settings = settings.but(rerank="none", top_k=settings.top_k or PART_HITS)
    result = search_parts(
        found=found,
        parts=parts,
        search=lambda query: _retrieve_whole(replace(request, query=query, settings=part_settings)),
        top_k=settings.top_k,
    )
    spent_ms = (time.perf_counter() - started) * 1e3
    timings_ms = {**found.timings_ms, "parts": spent_ms}
    timings_ms["total"] = found.timings_ms.get("total", 0.0) + spent_ms
    return replace(result, timings_ms=timings_ms)


def _retrieve_whole(request: RetrievalRequest) -> SearchResult:
    timer, query, settings = StageTimer(), request.query, request.settings
    known = stores_with_vocabulary(stores=request.stores, scope=request.scope)
    analysis = QueryAnalyzer().analyze(query, vocabulary=merged_vocabulary(stores=known))
    types = tuple(
        settings.content_types
        or content_types_for_entities(analysis=analysis, stores=known, scope=request.scope)
    )
    timer.end("analyze")
    named = _named_documents(request, types)
    if named is not None:
        timer.end("lookup")
        request = replace(request, files=named.file_filter)
        if named.hits:
            return _looked_up(request, named, analysis, timer)
    search = _search(request, analysis, types)
    timer.end("search")
    top_k = settings.top_k or analysis.top_k
    post = postprocess_hits(query=query, hits=search.found.hits, top_k=top_k, settings=settings)
    timer.end("refine")
    ranked, reranker = rerank_by_settings(query=query, hits=post.hits, settings=settings)
    if reranker:
        timer.end("rerank")
    hits = tuple(ranked[: post.top_k])
    confidence = search_confidence(query=query, hits=hits, models_of=search.found.models_of)
    # Of a document that the question names its passages lack the name.
    judged = None if named and named.files else _judged(request, search, hits)
    if judged and confidence is not None:
        confidence = min(confidence, judged.most_confidence)
    timer.end("judge")
    return SearchResult(
        query,
        hits,
        search.settings.mode,
        post.top_k,
        settings.hash,
        search.found.routes,
        timings_ms={**search.found.timings_ms, **timer.elapsed_ms()},
        analysis=analysis,
        rerank=reranker,
        confidence=confidence,
        store_ids=tuple(search.found.models_of),
        metadata={
            **_metadata(analysis, search, post, len(hits), reranker),
            "documents": None if named is None else named.as_dict(),
            "answerability": judged and judged.as_dict(),
        },
        answerability=judged,
    )


def _judged(
    request: RetrievalRequest, search: _Search, hits: Sequence[Hit]
) -> Answerability | None:
    """Return what is told of the hits of our own engine; of others' scores nothing is known."""
    if request.settings.unanswerable == "answer" or request.engine is not run_search:
        return None
    return search_answerability(
        query=request.query,
        hits=hits,
        pool=search.found.hits,
        models_of=search.found.models_of,
        scope=request.scope,
    )


def _named_documents(request: RetrievalRequest, types: tuple[str, ...]) -> NamedDocuments | None:
    if request.files is not None:
        return None  # who asks has said already where to look
    asked = parse_document_question(request.query)
    if asked is None:
        return None
    look = partial(lookup_documents, asked=asked, scope=request.scope, stores=request.stores)
    named = look(settings=request.settings.but(content_types=types))
    if types != request.settings.content_types and not (named and named.files):
        named = look(settings=request.settings)
    return named


def _looked_up(
    request: RetrievalRequest, named: NamedDocuments, analysis: QueryAnalysis, timer: StageTimer
) -> SearchResult:
    """Return the passages that a question names: nothing is compared with it."""
    n = len(named.hits)
    search = _Search(
        request.settings.but(mode="keyword", content_types=named.content_types),
        Candidates(named.hits),
    )
    post = PostprocessedHits(named.hits, n, 0, 0)
    return SearchResult(
        request.query,
        named.hits,
        "lookup",
        n,
        request.settings.hash,
        {},
        timings_ms=timer.elapsed_ms(),
        analysis=analysis,
        confidence=1.0,
        store_ids=tuple({hit.store_id: None for hit in named.hits if hit.store_id}),
        metadata={
            **_metadata(analysis, search, post, n, ""),
            "mode": "lookup",
            "documents": named.as_dict(),
        },
    )


def _search(request: RetrievalRequest, analysis: QueryAnalysis, types: tuple[str, ...]) -> _Search:
    given = request.settings
    is_free = given.mode == "auto"
    # More than wanted, since some will repeat others.
    n_kept = rerank_pool_size(top_k=given.top_k or analysis.top_k, settings=given)
    wanted = given.but(
        mode=analysis.mode if is_free else given.mode,
        top_k=min(MAX_CANDIDATES, 2 * n_kept + 4),
        content_types=types,
        rerank="none",
    )
    search = _asked_with_room(request, wanted, n_kept)
    if not search.found.hits and types and not given.content_types:
        wanted, reasons = wanted.but(content_types=()), {"content_types": "nothing_found"}
        search = replace(_asked(request, wanted), reasons=reasons)
    if not search.found.hits and is_free and wanted.mode != "hybrid":
        reasons = {**search.reasons, "mode": "nothing_found"}
        search = replace(_asked(request, wanted.but(mode="hybrid")), reasons=reasons)
    return search


def _asked_with_room(request: RetrievalRequest, wanted: RetrievalSettings, n_kept: int) -> _Search:
    """Ask once for more where chunks that are shown as one passage took the places of others."""
    search = _asked(request, wanted)
    hits, n_asked = search.found.hits, wanted.top_k or 0
    within = [(one.file_id, one.parent_start) for one in hits if one.parent_start is not None]
    n_shown = len(hits) - len(within) + len(set(within))
    if not within or n_shown >= n_kept or len(hits) + search.n_below < n_asked:
        return search
    return _asked(request, wanted.but(top_k=min(MAX_CANDIDATES, WIDENED * n_asked)))


def _asked(request: RetrievalRequest, settings: RetrievalSettings) -> _Search:
    """Return what the engine proposes, without what is below the thresholds."""
    found = request.engine(
        query=request.query,
        scope=request.scope,
        stores=request.stores,
        files=request.files,
        settings=settings,
    )
    if settings.vector_threshold <= 0 and settings.bm25_threshold <= 0:
        return _Search(settings, found)
    passed = filter_by_threshold(
        query=request.query,
        hits=found.hits,
        models_of=found.models_of,
        vector_threshold=settings.vector_threshold,
        bm25_threshold=settings.bm25_threshold,
    )
    return _Search(settings, replace(found, hits=passed.hits), n_below=passed.n_below)


def _metadata(
    analysis: QueryAnalysis, search: _Search, post: PostprocessedHits, n_hits: int, reranker: str
) -> dict[str, object]:
    return {
        "mode": search.settings.mode,
        "query_intent": analysis.intent,
        **analysis.as_dict(),
        "content_types": list(search.settings.content_types) or None,
        "top_k": post.top_k,
        "total_found": len(search.found.hits),
        "returned": n_hits,
        "rerank": reranker or None,
        "fallback": "hybrid" if "mode" in search.reasons else None,
        "fallback_reasons": search.reasons,
        "below_thresholds": search.n_below,
        "dropped_duplicates": post.n_dropped,
        "merged": post.n_merged,
    }
