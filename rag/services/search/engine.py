"""Search engine: scope, query vectors and one hybrid statement, for ``retrieve`` alone.

It follows its settings to the letter: no analysis, no reranking, no cache and no log.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rag import models
from rag.core import metrics
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.core.hits import Hit
from rag.core.ports import FileFilter, IndexQuery
from rag.core.types import RetrievalSettings
from rag.providers.postgres.db.connections import release_db
from rag.services.search.cache_regions import cache_region
from rag.services.search.targets import file_filter, resolve_targets
from rag.services.wiring import registry as wiring
from rag.stages.text.terms import content_terms, is_han, is_identifier, short_han_phrase

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The same text has the same vector for ever; what nobody asks for any more still has to go.
VECTOR_TTL_S = 30 * 86400.0
MAX_QUERY = 4000
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Candidates:
    """Hits of the index, best first; the route of each space; the model of each store searched."""

    hits: tuple[Hit, ...]
    routes: Mapping[int, str] = field(default_factory=dict)
    models_of: Mapping[int, str] = field(default_factory=dict)
    timings_ms: Mapping[str, float] = field(default_factory=dict)


@metrics.span("search")
def run_search(
    *,
    query: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings,
    files: FileFilter | None = None,
) -> Candidates:
    """Return up to ``settings.top_k`` chunks of ``stores`` that ``scope`` may read.

    Mode auto asks both legs. ``files`` alone are found, past the settings' filters.
    """
    timer = _StageTimer()
    targets = resolve_targets(stores=stores, scope=scope)
    timer.end("access")
    mode = "hybrid" if settings.mode == "auto" else settings.mode
    spaces = {target.space_id for target in targets if mode != "keyword"}
    vectors = {space: embed_query(space_id=space, query=query) for space in spaces}
    timer.end("embed")
    models_of = {target.store_id: target.model for target in targets}
    index_query = IndexQuery(
        targets=targets,
        group_ids=scope.group_ids,
        vectors=vectors,
        settings=settings,
        **(_lexical_query(query) if mode != "semantic" else {"terms": {}}),
        top_k=settings.top_k or 1,
        files=files or file_filter(store_ids=list(models_of), settings=settings),
    )
    hits, routes = wiring.index().search(index_query)
    timer.end("sql")
    spent_ms = timer.elapsed_ms()
    metrics.observe("search", spent_ms["total"] / 1e3, mode=mode)
    return Candidates(tuple(hits), routes, models_of, spent_ms)


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


def _lexical_query(query: str) -> dict[str, Any]:
    terms = content_terms(query)
    return {
        "terms": terms,
        "codes": frozenset(filter(is_identifier, terms)),
        "is_han": is_han(query),
        "phrase": short_han_phrase(query) if terms else "",
    }


class _StageTimer:
    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()
        self._ms: dict[str, float] = {}

    def end(self, name: str) -> None:
        now = time.perf_counter()
        self._ms[name], self._last = (now - self._last) * 1e3, now

    def elapsed_ms(self) -> dict[str, float]:
        return {**self._ms, "total": (time.perf_counter() - self._began) * 1e3}
