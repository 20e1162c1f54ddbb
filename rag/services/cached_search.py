"""The one search, with what was found before. In: what ``search`` takes. Out: what it returns.

The states of the stores are read first and the search runs then: what is kept under a state was
found in it or in a newer one, and a newer one is asked for by another key. So a cached result is
never older than a search that began when this one did.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.ports import FileFilter
from rag.core.types import RetrievalSettings, SearchResult
from rag.providers.cache.frozen_json import from_json, to_json
from rag.providers.postgres.generations import read_states
from rag.services.caches import place_of
from rag.services.log_query import log_query
from rag.services.search import checked_query, search
from rag.services.search_key import SearchKey, search_key, seen_in_query


def cached_search(
    *,
    query: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    is_logged: bool = True,
    files: FileFilter | None = None,
) -> SearchResult:
    """Return what ``search`` returns, from the cache where that is the same.

    A kept result has only the times ``cache`` and ``total``; a fresh one has ``cache`` beside its
    own. Errors are those of ``search`` and never kept.
    """
    started = time.perf_counter()
    asked = checked_query(query=query)
    if settings is None and stores:
        settings = stores[0].retrieval_settings
    anew = partial(
        search, query=asked, scope=scope, stores=stores, settings=settings, is_logged=is_logged,
        files=files,
    )  # fmt: skip
    key = settings and _key(asked, scope, stores, settings, files)
    if not key:
        return anew()
    fresh: list[SearchResult] = []

    def work() -> tuple[bytes, float]:
        fresh.append(anew())
        result = replace(fresh[0], query="", timings_ms={})
        return to_json(result), 0.0 if _is_makeshift(result) else key.ttl_s

    found = place_of("results").fetch(key.asked, work)
    kept = None if fresh else from_json(SearchResult, found)
    if kept is None:
        return _timed(fresh[0] if fresh else anew(), started)
    spent_ms = (time.perf_counter() - started) * 1e3
    times_ms = {"cache": spent_ms, "total": spent_ms}
    result = replace(kept, query=asked, timings_ms=times_ms)
    if is_logged:
        log_query(result=result, scope=scope)
    return result


def _timed(result: SearchResult, started: float) -> SearchResult:
    total_ms = (time.perf_counter() - started) * 1e3
    cache_ms = total_ms - result.timings_ms.get("total", 0.0)
    return replace(result, timings_ms={**result.timings_ms, "cache": cache_ms, "total": total_ms})


def _key(
    asked: str, scope: Scope, stores: Sequence[models.Store], settings: RetrievalSettings,
    files: FileFilter | None,
) -> SearchKey | None:  # fmt: skip
    """Return the key of a search that may be kept; a store that was deleted has no state."""
    ids = {store.pk for store in stores}
    states = read_states(ids)
    key = None
    if ids and len(states) == len(ids):
        analysis = seen_in_query(asked, stores) if settings.top_k is None else "given"
        also = [analysis, files and sorted(files.file_ids)]
        key = search_key(query=asked, scope=scope, settings=settings, states=states, also=also)
    if key is None:
        place_of("results").count("bypasses")
    return key


def _is_makeshift(result: SearchResult) -> bool:
    """Return whether something stood in for a model that failed, or an index was not up to date;
    both may be over soon."""
    model, by = conf().analysis_model, result.analysis
    is_behind = any("behind" in route for route in result.routes.values())
    return is_behind or result.rerank == "failed" or bool(model and by and by.analyzer != model)
