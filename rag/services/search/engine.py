"""Search engine: scope, analysis, query vectors, one hybrid statement, reranking, confidence.

It asks nothing of the result cache and does nothing to the hits but to rank them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rag import models
from rag.core import metrics
from rag.core.access import Scope
from rag.core.analysis import QueryAnalysis
from rag.core.errors import InvalidInputError
from rag.core.ports import FileFilter, IndexQuery
from rag.core.types import RetrievalSettings, SearchResult
from rag.providers.postgres.db.connections import release_db
from rag.services.search.cache_regions import cache_region
from rag.services.search.confidence import search_confidence
from rag.services.search.query_analysis import QueryAnalyzer, merged_vocabulary
from rag.services.search.query_log import log_query
from rag.services.search.reranking import rerank_by_settings, rerank_pool_size
from rag.services.search.targets import check_searchable, file_filter, resolve_targets
from rag.services.wiring import registry as wiring
from rag.stages.text.terms import is_han, is_identifier, query_terms, short_han_phrase

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The same text has the same vector for ever; what nobody asks for any more still has to go.
VECTOR_TTL_S = 30 * 86400.0


def embed_query(*, space_id: int, query: str) -> NDArray[np.float32]:
    """Return float32 [dim], bit for bit as the space's own model makes it."""
    embedder = wiring.embedder_of(space_id)
    region = cache_region("vectors")
    model = [embedder.id, embedder.dim, embedder.version]
    name = region.seal.name(json.dumps([*model, query]).encode())
    found = region.find(name)
    region.count("misses" if found is None else "hits")
    if found is not None and len(found) == 4 * embedder.dim:
        return np.frombuffer(found, "<f4").astype(np.float32)
    if not wiring.is_local_model(model_id=embedder.id):
        # A service may take a minute to answer; a connection held so long is missed by others.
        release_db()
    vector = embedder.embed_query(query)
    region.keep(name, vector.astype("<f4").tobytes(), VECTOR_TTL_S)
    return vector


MAX_QUERY = 4000
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@metrics.span("search")
def run_search(
    *,
    query: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    is_logged: bool = True,
    files: FileFilter | None = None,
) -> SearchResult:
    """Return the hits of ``query`` in ``stores`` that ``scope`` may read.

    ``settings`` None takes the first store's own; ``top_k`` None takes 3, 5 or 10 by the query's
    complexity, and the result says what the analysis saw. Mode auto asks both legs: what a guess
    would hide is worse than what it saves. ``files`` alone are found, past the settings' filters.
    Raises InvalidInputError for an empty query and a store at Gemini.
    """
    timer = _StageTimer()
    query = validated_query(query=query)
    check_searchable(stores=stores)
    settings = settings or stores[0].retrieval_settings
    mode = "hybrid" if settings.mode == "auto" else settings.mode
    targets = resolve_targets(stores=stores, scope=scope)
    timer.end("access")
    store_ids = [target.store_id for target in targets]
    analysis = None if settings.top_k else _analysis(query, stores, store_ids)
    timer.end("analyze")
    spaces = {target.space_id for target in targets if mode != "keyword"}
    vectors = {space: embed_query(space_id=space, query=query) for space in spaces}
    timer.end("embed")
    top_k = analysis.top_k if analysis else settings.top_k or 1
    index_query = IndexQuery(
        targets=targets,
        group_ids=scope.group_ids,
        vectors=vectors,
        settings=settings,
        **(_lexical_query(query) if mode != "semantic" else {"terms": {}}),
        top_k=rerank_pool_size(top_k=top_k, settings=settings),
        files=files or file_filter(store_ids=store_ids, settings=settings),
    )
    hits, routes = wiring.index().search(index_query)
    timer.end("sql")
    hits, rerank = rerank_by_settings(query=query, hits=hits, settings=settings)
    if rerank:
        timer.end("rerank")
    confidence = search_confidence(query=query, hits=hits, targets=targets)
    result = SearchResult(
        query,
        tuple(hits[:top_k]),
        mode,
        top_k,
        settings.hash,
        routes,
        timings_ms=timer.etimered_ms(),
        analysis=analysis,
        rerank=rerank,
        confidence=confidence,
        store_ids=tuple(store_ids),
    )
    metrics.observe("search", result.timings_ms["total"] / 1e3, mode=mode)
    if is_logged:
        log_query(result=result, scope=scope)
    return result


def validated_query(*, query: str) -> str:
    """Return what is searched for; raise InvalidInputError when it is empty or too long."""
    query = _UNSTORABLE.sub(" ", query).strip()
    if not query:
        raise InvalidInputError("The query is empty.", hint="Ask something.")
    if len(query) > MAX_QUERY:
        raise InvalidInputError(
            "The query has {n} characters.", hint="Allowed: {limit}.", n=len(query), limit=MAX_QUERY
        )
    return query


def _lexical_query(query: str) -> dict[str, Any]:
    terms = query_terms(query)
    return {
        "terms": terms,
        "codes": frozenset(filter(is_identifier, terms)),
        "is_han": is_han(query),
        "phrase": short_han_phrase(query) if terms else "",
    }


def _analysis(query: str, stores: Sequence[models.Store], ids: Sequence[int]) -> QueryAnalysis:
    # What a store calls its things is no business of those who may not read it.
    names = merged_vocabulary(stores=[store for store in stores if store.pk in ids])
    return QueryAnalyzer().analyze(query, vocabulary=names)


class _StageTimer:
    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()
        self._ms: dict[str, float] = {}

    def end(self, name: str) -> None:
        now = time.perf_counter()
        self._ms[name], self._last = (now - self._last) * 1e3, now

    def etimered_ms(self) -> dict[str, float]:
        return {**self._ms, "total": (time.perf_counter() - self._began) * 1e3}
