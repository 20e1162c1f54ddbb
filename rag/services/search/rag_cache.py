"""RAGCache: results that callers keep themselves, by question, rights and store states.

A change gives its stores another state at commit, so that nothing has to be looked for and
removed: what was kept before is asked for no more, and goes when its time is over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from rag.core.access import Scope
from rag.core.types import RetrievalSettings
from rag.providers.postgres.search.generations import bump_generation, read_states
from rag.services.search.result_cache import CacheKey, cache_region, search_cache_key
from rag.services.stores import find_stores

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis

Results = Sequence[Mapping[str, Any]]
# What this task has asked last: its results belong to the state that was read then.
_RECENT_KEYS: ContextVar[tuple[tuple[object, CacheKey | None], ...]] = ContextVar(
    "asked", default=()
)
_MAX_RECENT = 32


class RAGCache:
    """Results by question, store and content types, for one caller's rights and settings.

    ``redis_client`` None takes the installation's cache; of an async one the server is asked by a
    client of our own, on threads. Results are kept for ``ttl_seconds``, or
    for less if their store says so. ``project_id`` names a store as everywhere: slug, name or
    resource name; NotFoundError for one that ``scope`` may not read.
    """

    def __init__(
        self,
        redis_client: Redis | AsyncRedis | None = None,
        ttl_seconds: int = 3600,
        *,
        scope: Scope | None = None,
        settings: RetrievalSettings | None = None,
    ) -> None:
        self.ttl = ttl_seconds
        self._scope = scope or Scope.anonymous()
        self._settings = settings
        self._region = cache_region("results", redis_client)

    async def get(
        self, query: str, project_id: str, content_types: Sequence[str] | None = None
    ) -> list[dict[str, Any]] | None:
        """Return the results that were set for this question, or None."""
        key = await sync_to_async(self._key)(query, project_id, content_types)
        question = self._question(query, project_id, content_types)
        others = [pair for pair in _RECENT_KEYS.get() if pair[0] != question]
        _RECENT_KEYS.set(((question, key), *others[: _MAX_RECENT - 1]))
        return await sync_to_async(self._find)(key)

    async def set(
        self,
        query: str,
        project_id: str,
        content_types: Sequence[str] | None,
        results: Results,
    ) -> None:
        """Keep JSON-safe results that were looked for after the task's ``get`` of this question.

        Without a ``get`` they count as found in the store's state of now.
        """
        question = self._question(query, project_id, content_types)
        asked = dict(_RECENT_KEYS.get())
        if question not in asked:
            asked[question] = await sync_to_async(self._key)(query, project_id, content_types)
        await sync_to_async(self._keep)(asked[question], results)

    async def invalidate_project(self, project_id: str) -> None:
        """Let everything that was kept of a store be asked for no more, for all callers."""
        await sync_to_async(self._invalidate)(project_id)

    def counters(self) -> dict[str, dict[str, int] | None]:
        """Return hits, misses, bypasses and errors of this process, and of all (None: unknown)."""
        everybody = self._region.totals()
        return {"process": self._region.own(), "all": everybody}

    def _question(self, query: str, project_id: str, types: Sequence[str] | None) -> object:
        return self, query, project_id, tuple(sorted(types or ()))

    def _key(self, query: str, project_id: str, types: Sequence[str] | None) -> CacheKey | None:
        (store,) = find_stores(names=[project_id], scope=self._scope)
        settings = self._settings or store.retrieval_settings
        return search_cache_key(
            query=query,
            scope=self._scope,
            states=read_states([store.pk]),
            extra="list",
            settings=settings.but(content_types=tuple(sorted(types or ()))),
        )

    def _find(self, key: CacheKey | None) -> list[dict[str, Any]] | None:
        found = None if key is None else self._region.find(self._region.seal.name(key.payload))
        self._region.count("bypasses" if key is None else "misses" if found is None else "hits")
        results: list[dict[str, Any]] | None = None if found is None else json.loads(found)
        return results

    def _keep(self, key: CacheKey | None, results: Results) -> None:
        if key is not None:
            value = json.dumps([dict(result) for result in results]).encode()
            name = self._region.seal.name(key.payload)
            self._region.keep(name, value, min(self.ttl, key.ttl_s))

    def _invalidate(self, project_id: str) -> None:
        bump_generation(store.pk for store in find_stores(names=[project_id], scope=self._scope))
