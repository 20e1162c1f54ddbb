"""Result cache: what a retrieval found, kept until one of its stores changes.

Results and query vectors are kept in this process and in Redis where one is set up.

The generations of the stores are read first and the search runs then: what is kept under a state
was found in it or in a newer one, and a newer one has another key. So a cached result is never
older than a search that began when this one did.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings as django_settings
from pydantic import ConfigDict, TypeAdapter, ValidationError

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.ports import FileFilter
from rag.core.types import RetrievalSettings, SearchResult
from rag.providers.cache.memory_cache import MemoryCache
from rag.providers.cache.sealed_cache import Seal, SealedCache
from rag.providers.postgres.db.connections import release_db
from rag.providers.postgres.search.generations import StoreState, read_states
from rag.stages.text.terms import VERSION

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis

    from rag.providers.cache.redis_cache import RedisCache

# Entries and bytes that one process keeps of each kind.
CAPACITY = {"results": (10_000, 32_000_000), "vectors": (20_000, 32_000_000)}
_PACKAGE = Path(__file__).resolve().parents[2]
_PARTS = ("core", "models", "providers", "services", "stages")


def cache_region(kind: str, redis_client: Redis | AsyncRedis | None = None) -> SealedCache:
    """Return the cache of ``results`` or ``vectors``: in Redis where one is set up, and here."""
    secret = django_settings.SECRET_KEY
    if redis_client is not None:
        # The client with its async half and its telemetry: only where a server is set up.
        from rag.providers.cache.redis_cache import RedisCache, sync_client

        return _make(kind, RedisCache(sync_client(redis_client)), secret)
    return _own(kind, conf().redis_url, secret)


@lru_cache(maxsize=8)
def _own(kind: str, redis_url: str, secret: str) -> SealedCache:
    return _make(kind, _server(redis_url) if redis_url else None, secret)


@lru_cache(maxsize=4)
def _server(redis_url: str) -> RedisCache:
    from rag.providers.cache.redis_cache import RedisCache, connect  # as above

    # One breaker for all kinds: a search that meets a frozen server waits once, not once a kind.
    return RedisCache(connect(redis_url))


def _make(kind: str, far: RedisCache | None, secret: str) -> SealedCache:
    max_items, max_bytes = CAPACITY[kind]
    near = MemoryCache(max_items=max_items, max_bytes=max_bytes)
    return SealedCache(near, far, seal=Seal(secret, kind), before_wait=release_db)


@dataclass(frozen=True, slots=True)
class CacheKey:
    """``payload`` differs wherever results may; ``ttl_s`` is how long they may be kept."""

    payload: bytes
    ttl_s: int


def search_cache_key(
    *,
    query: str,
    scope: Scope,
    settings: RetrievalSettings,
    states: Sequence[StoreState],
    extra: Any = "",
) -> CacheKey | None:
    """Return the key, or None where nothing may be kept.

    ``extra`` is what else the result depends on, JSON-safe. Nothing may be kept where a store
    keeps none, and inside a transaction that has changed a store itself: nobody else sees that
    state, and it may never come to be.
    """
    ttl_s = min((state.ttl_s for state in states), default=0)
    if ttl_s < 1 or any(state.is_ours for state in states):
        return None
    parts = [
        extra,
        normalize_query(query),
        scope.fingerprint,
        settings.hash,
        [[*asdict(state).values()] for state in states],
        VERSION,
        _code_digest(),
        _model_settings(settings),
    ]
    return CacheKey(json.dumps(parts, ensure_ascii=False).encode("utf-8", "surrogatepass"), ttl_s)


def state_digest(*, stores: Sequence[models.Store], scope: Scope) -> str:
    """Return what differs once the caller's rights or one of the stores have changed."""
    states = read_states([store.pk for store in stores])
    told = [scope.fingerprint, *(f"{one.store_id}:{one.generation}" for one in states)]
    return hashlib.sha256(" ".join(told).encode()).hexdigest()[:32]


def normalize_query(query: str) -> str:
    """Return one form for spellings that search for the same terms: NFKC, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", query).split())


def _model_settings(settings: RetrievalSettings) -> list[str]:
    values = conf()
    # Endpoint and form of the models that turn a question into a vector, or sort what was found.
    return [
        values.e5_precision,
        str(values.embedding_dim),
        values.query_prefix,
        values.openai_base_url,
        values.gemini_base_url,
        *(
            []
            if settings.rerank == "none"
            else [values.chat_model, values.rerank_url, values.rerank_model]
        ),
    ]


@lru_cache(maxsize=1)
def _code_digest() -> str:
    """Return what differs between releases that may rank differently; nobody must remember to."""
    digest = hashlib.sha256()
    for part in _PARTS:
        for path in sorted((_PACKAGE / part).rglob("*")):
            if path.suffix in (".py", ".sql"):
                digest.update(path.relative_to(_PACKAGE).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def retrieval_key(
    query: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings,
    files: FileFilter | None,
) -> CacheKey | None:
    """Return the key of a retrieval that may be kept; a store that was deleted has no state."""
    ids = {store.pk for store in stores}
    states = read_states(ids)
    key = None
    if ids and len(states) == len(ids):
        names = sorted({store.pk: store.vocabulary for store in stores}.items())
        extra = [names, conf().analysis_model, files and sorted(files.file_ids)]
        key = search_cache_key(
            query=query, scope=scope, settings=settings, states=states, extra=extra
        )
    if key is None:
        cache_region("results").count("bypasses")
    return key


def fetch_result(key: CacheKey | None, work: Callable[[], SearchResult]) -> SearchResult:
    """Return what is kept under ``key``, without timings, else what ``work`` finds.

    Errors are those of ``work`` and never kept.
    """
    if key is None:
        return work()
    fresh: list[SearchResult] = []

    def find() -> tuple[bytes, float]:
        fresh.append(work())
        result = replace(fresh[0], query="", timings_ms={})
        return write_result(result), 0.0 if _is_degraded(result) else key.ttl_s

    found = cache_region("results").fetch(key.payload, find)
    return fresh[0] if fresh else read_result(found) or work()


@lru_cache(maxsize=1)
def _codec() -> TypeAdapter[list[SearchResult]]:
    return TypeAdapter(list[SearchResult], config=ConfigDict(ser_json_inf_nan="constants"))


def write_result(result: SearchResult) -> bytes:
    """Return a result as JSON; what has its default is left out."""
    return _codec().dump_json([result], exclude_defaults=True)


def read_result(raw: bytes) -> SearchResult | None:
    """Return what ``write_result`` was given, or None for what is no result."""
    try:
        return _codec().validate_json(raw)[0]
    except (ValidationError, IndexError):
        return None


def _is_degraded(result: SearchResult) -> bool:
    """Return whether something stood in for a model that failed, or an index was not up to date;
    both may be over soon."""
    model, by = conf().analysis_model, result.analysis
    is_behind = any("behind" in route for route in result.routes.values())
    return is_behind or result.rerank == "failed" or bool(model and by and by.analyzer != model)
