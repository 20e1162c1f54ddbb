"""The one search of all edges. In: query, scope, stores, settings. Out: hits with explanation.

A question's vector in a space, through the cache. In: space and text. Out: the vector.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rag import models
from rag.core import watch
from rag.core.access import Scope
from rag.core.analysis import QueryAnalysis
from rag.core.errors import InvalidInputError
from rag.core.ports import FileFilter, IndexQuery
from rag.core.types import RetrievalSettings, SearchResult
from rag.providers.postgres.db.connections import release_db
from rag.services.search.cache import place_of
from rag.services.search.confidence import confidence_of
from rag.services.search.query_analysis import QueryAnalyzer, vocabulary_of
from rag.services.search.query_log import log_query
from rag.services.search.rerank import n_candidates, rank_again
from rag.services.search.targets import check_searchable, file_filter, search_targets
from rag.services.wiring import registry as wiring
from rag.stages.text.terms import is_han, is_identifier, query_terms, short_phrase

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The same text has the same vector for ever; what nobody asks for any more still has to go.
KEEP_S = 30 * 86400.0
# Providers that ask no service.
ON_THIS_MACHINE = frozenset({"e5", "use", "sentence_transformers"})


def embed_query(*, space_id: int, query: str) -> NDArray[np.float32]:
    """Return float32 [dim], bit for bit as the space's own model makes it."""
    embedder = wiring.embedder_of(space_id)
    place = place_of("vectors")
    model = [embedder.id, embedder.dim, embedder.version]
    name = place.seal.name(json.dumps([*model, query]).encode())
    found = place.find(name)
    place.count("misses" if found is None else "hits")
    if found is not None and len(found) == 4 * embedder.dim:
        return np.frombuffer(found, "<f4").astype(np.float32)
    if embedder.id.partition(":")[0] not in ON_THIS_MACHINE:
        # A service may take a minute to answer; a connection held so long is missed by others.
        release_db()
    vector = embedder.embed_query(query)
    place.keep(name, vector.astype("<f4").tobytes(), KEEP_S)
    return vector


MAX_QUERY = 4000
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@watch.span("search")
def search(
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
    laps = _Laps()
    query = checked_query(query=query)
    check_searchable(stores=stores)
    settings = settings or stores[0].retrieval_settings
    mode = "hybrid" if settings.mode == "auto" else settings.mode
    targets = search_targets(stores=stores, scope=scope)
    laps.end("access")
    store_ids = [target.store_id for target in targets]
    analysis = None if settings.top_k else _analysis(query, stores, store_ids)
    laps.end("analyze")
    spaces = {target.space_id for target in targets if mode != "keyword"}
    vectors = {space: embed_query(space_id=space, query=query) for space in spaces}
    laps.end("embed")
    top_k = analysis.top_k if analysis else settings.top_k or 1
    index_query = IndexQuery(
        targets=targets,
        group_ids=scope.group_ids,
        vectors=vectors,
        settings=settings,
        **(_words(query) if mode != "semantic" else {"terms": {}}),
        top_k=n_candidates(top_k=top_k, settings=settings),
        files=files or file_filter(store_ids=store_ids, settings=settings),
    )
    hits, routes = wiring.index().search(index_query)
    laps.end("sql")
    hits, rerank = rank_again(query=query, hits=hits, settings=settings)
    if rerank:
        laps.end("rerank")
    confidence = confidence_of(query=query, hits=hits, targets=targets)
    result = SearchResult(
        query,
        tuple(hits[:top_k]),
        mode,
        top_k,
        settings.hash,
        routes,
        timings_ms=laps.so_far(),
        analysis=analysis,
        rerank=rerank,
        confidence=confidence,
        store_ids=tuple(store_ids),
    )
    watch.took("search", result.timings_ms["total"] / 1e3, mode=mode)
    if is_logged:
        log_query(result=result, scope=scope)
    return result


def checked_query(*, query: str) -> str:
    """Return what is searched for; raise InvalidInputError when it is empty or too long."""
    query = _UNSTORABLE.sub(" ", query).strip()
    if not query:
        raise InvalidInputError("The query is empty.", hint="Ask something.")
    if len(query) > MAX_QUERY:
        raise InvalidInputError(
            "The query has {n} characters.", hint="Allowed: {limit}.", n=len(query), limit=MAX_QUERY
        )
    return query


def _words(query: str) -> dict[str, Any]:
    terms = query_terms(query)
    return {
        "terms": terms,
        "codes": frozenset(filter(is_identifier, terms)),
        "is_han": is_han(query),
        "phrase": short_phrase(query) if terms else "",
    }


def _analysis(query: str, stores: Sequence[models.Store], ids: Sequence[int]) -> QueryAnalysis:
    # What a store calls its things is no business of those who may not read it.
    names = vocabulary_of(stores=[store for store in stores if store.pk in ids])
    return QueryAnalyzer().analyze(query, vocabulary=names)


class _Laps:
    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()
        self._ms: dict[str, float] = {}

    def end(self, name: str) -> None:
        now = time.perf_counter()
        self._ms[name], self._last = (now - self._last) * 1e3, now

    def so_far(self) -> dict[str, float]:
        return {**self._ms, "total": (time.perf_counter() - self._began) * 1e3}
