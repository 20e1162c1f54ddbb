"""Search index on Milvus: hits proposed by Milvus, filtered and scored by Postgres.

Milvus proposes chunks; what has changed since it was fed is proposed by the outbox. Postgres lets
through what the caller may see now, and scores it with the vectors and words that it has now.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rag import models
from rag.core.errors import ConfigurationError, NotFoundError
from rag.core.hits import Hit
from rag.core.ports import FileFilter, IndexQuery
from rag.models.outbox import WORDS
from rag.providers.milvus.collections import VECTOR_FIELD, WORDS_FIELD, collection_name
from rag.providers.milvus.server import MilvusServer
from rag.providers.postgres.db.connections import fetch_row, release_db
from rag.providers.postgres.outbox.rows import outbox_state, recent_changes
from rag.providers.postgres.search.hybrid import (
    CandidateLegs,
    candidates_per_leg,
    filter_conditions,
    filter_values,
    hybrid_search,
    term_weights,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# As many as Milvus returns at most.
MOST = 16_384
# More files would make the filter longer than it is worth; Postgres filters them alone.
MAX_FILES = 10_000


def search_candidates(
    server: MilvusServer,
    space_id: int,
    numbers: NDArray[np.float32] | Mapping[int, float],
    where: str,
    limit: int,
) -> list[int]:
    """Return up to ``limit`` chunks, nearest first: by a vector, or by words' weights (space 0).

    Raises NotFoundError where nothing was ever fed, ProviderError.
    """
    field = VECTOR_FIELD if space_id else WORDS_FIELD
    question: Any = dict(numbers) if isinstance(numbers, Mapping) else numbers.tolist()
    # A graph that keeps fewer in view than are asked for is refused.
    params = {"ef": max(limit, 200)} if space_id else {}
    found = server.read(
        "search",
        collection_name(space_id),
        data=[question],
        anns_field=field,
        filter=where,
        limit=limit,
        output_fields=[],
        search_params={"params": params},
        consistency_level="Bounded",
    )
    return [int(hit["chunk_id"]) for hit in found[0]]


def candidate_filter(query: IndexQuery, store_ids: Sequence[int]) -> str:
    """Return what the query lets through of these stores, as Milvus reads it.

    It only spares proposals that Postgres would refuse: what Milvus holds may be out of date.
    """
    parts = [f"store_id in {sorted(store_ids)}"]
    open_ids = sorted(
        target.store_id
        for target in query.targets
        if target.sees_restricted and target.store_id in store_ids
    )
    if len(open_ids) < len(store_ids):
        rules = ["is_open == true"]
        if query.group_ids:
            rules.append(f"array_contains_any(groups, {sorted(query.group_ids)})")
        if open_ids:
            rules.append(f"store_id in {open_ids}")
        parts.append(f"({' or '.join(rules)})")
    if query.settings.content_types:
        types = json.dumps(sorted(query.settings.content_types), ensure_ascii=False)
        parts.append(f"content_type in {types}")
    if query.files is not None and len(query.files.file_ids) <= MAX_FILES:
        parts.append(f"file_id in {sorted(query.files.file_ids)}")
    return " and ".join(parts)


# More changes than these are not looked at by a search; it is behind then, and says so.
MAX_RECENT = 5000
# How many times the candidates are asked for at first, and again when filters leave too few.
WIDER, AGAIN = 2, 4
# Those that share a word alone: what has just changed need not.
_WORDS = f"x.chunk_id = ANY(%(ids{WORDS})s::bigint[]) AND x.w <#> (SELECT sv FROM q) < 0"
_PASSING = "SELECT count(*) FROM {table} x WHERE x.chunk_id = ANY(%(ids)s::bigint[]) AND {filters}"


@dataclass(frozen=True, slots=True)
class _Leg:
    """One leg of the search: a space (0: the words), its stores, and what is asked."""

    space_id: int
    dim: int
    store_ids: tuple[int, ...]
    numbers: NDArray[np.float32] | Mapping[int, float]

    @property
    def table(self) -> str:
        return f"rag_chunk_vec_s{int(self.space_id)}" if self.space_id else "rag_chunk_lex"


class MilvusIndex:
    """Finds chunks by the vectors and words that a Milvus was fed with."""

    def __init__(self, server: MilvusServer) -> None:
        self._server = server

    def search(self, query: IndexQuery) -> tuple[list[Hit], dict[int, str]]:
        """Return hits, best first, and each space's route: ``milvus``, or how it fell short.

        Without vectors it is the words' (0). ``behind``: more changes wait than a search looks at;
        ``cut``: a filter left too few of all that Milvus returns. Raises ProviderError where Milvus
        fails: nothing stands in for it.
        """
        query = _with_files(query)
        if not query.targets or (query.files is not None and not query.files.file_ids):
            return [], {}
        routes: dict[int, str] = {}
        vectors: list[str] = []
        params: dict[str, list[int]] = {}
        for leg in _legs(query):
            ids, routes[leg.space_id] = self._candidates(query, leg)
            params[f"ids{leg.space_id}"] = ids
            if leg.space_id:
                vectors.append(_vector_leg(query, leg))
        words = _WORDS if WORDS in routes else "false"
        hits = hybrid_search(query, CandidateLegs(vectors, words, params))
        if vectors and (of_words := routes.pop(WORDS, "")):
            # The longer one says what fell short.
            routes = {space: max(route, of_words, key=len) for space, route in routes.items()}
        return hits, routes

    def _candidates(self, query: IndexQuery, leg: _Leg) -> tuple[list[int], str]:
        """Return enough chunks to choose from, what has just changed among them, and the route."""
        recent = recent_changes(leg.space_id, MAX_RECENT)
        route = "milvus behind" if len(recent) == MAX_RECENT else "milvus"
        limit = WIDER * candidates_per_leg(query)
        where = candidate_filter(query, leg.store_ids)
        while True:
            release_db()
            proposed = self._proposed(leg, where, limit)
            ids = list({*proposed, *recent})
            if len(proposed) < limit or _passing(query, leg, ids) >= candidates_per_leg(query):
                return ids, route
            if limit == MOST:
                return ids, "milvus cut"
            limit = min(MOST, AGAIN * limit)

    def _proposed(self, leg: _Leg, where: str, limit: int) -> list[int]:
        if isinstance(leg.numbers, Mapping) and not leg.numbers:
            return []
        try:
            return search_candidates(self._server, leg.space_id, leg.numbers, where, limit)
        except NotFoundError as error:
            # Nothing of it was fed yet, which is right while what is there still waits.
            if outbox_state().is_on:
                return []
            raise ConfigurationError(
                "Milvus was never fed.", hint="Run: manage.py rag_feed"
            ) from error


def _with_files(query: IndexQuery) -> IndexQuery:
    """Return the query with the files named that its metadata leave, where they are few enough:
    Milvus does not know metadata."""
    asked = dict(query.settings.metadata)
    if query.files is not None or not asked:
        return query
    stores = [target.store_id for target in query.targets]
    files = models.File.objects.filter(
        store_id__in=stores, n_chunks__gt=0, metadata__contains=asked
    ).order_by()
    rows = list(files.values_list("pk", "n_chunks")[: MAX_FILES + 1])
    if len(rows) > MAX_FILES:
        return query
    return replace(query, files=FileFilter([pk for pk, _ in rows], sum(n for _, n in rows)))


def _legs(query: IndexQuery) -> list[_Leg]:
    stores: dict[int, list[int]] = {}
    dims = {target.space_id: target.dim for target in query.targets}
    for target in query.targets:
        if target.space_id in query.vectors:
            stores.setdefault(target.space_id, []).append(target.store_id)
    legs = [
        _Leg(space_id, dims[space_id], tuple(ids), query.vectors[space_id])
        for space_id, ids in stores.items()
    ]
    if query.terms:
        all_ids = tuple(target.store_id for target in query.targets)
        legs.append(_Leg(WORDS, 0, all_ids, term_weights(query)))
    return legs


def _vector_leg(query: IndexQuery, leg: _Leg) -> str:
    space, kind = int(leg.space_id), f"halfvec({int(leg.dim)})"
    return (
        f"(SELECT x.chunk_id, {space} AS space_id,"
        f" 1 - (x.embedding::{kind} <=> %(e{space})s::{kind}) AS sim FROM {leg.table} x"
        f" WHERE x.chunk_id = ANY(%(ids{space})s::bigint[])"
        f" AND {filter_conditions(query, leg.store_ids)}"
        " ORDER BY sim DESC LIMIT %(k)s)"
    )


def _passing(query: IndexQuery, leg: _Leg, ids: Sequence[int]) -> int:
    statement = _PASSING.format(table=leg.table, filters=filter_conditions(query, leg.store_ids))
    return int(fetch_row(statement, {"ids": list(ids), **filter_values(query)})[0])
