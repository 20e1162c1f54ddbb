"""PostgresIndex: the search port on Postgres, with the choice of exact scan or HNSW per store.

The planner picks wrongly between an exact scan and HNSW, so the choice is made here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rag.conf import conf
from rag.core.hits import Hit
from rag.core.ports import FileFilter, IndexQuery, StoreTarget
from rag.providers.postgres.search.hybrid import (
    CandidateLegs,
    filter_conditions,
    hybrid_search,
    leaves_out_files,
)

MIN_SHARE = 0.01
MAX_EXACT = 20_000


@dataclass(frozen=True, slots=True)
class VectorScan:
    """One way through one space: ``exact``, ``hnsw`` (shared) or ``partial`` (of one store)."""

    space_id: int
    dim: int
    way: str
    store_ids: tuple[int, ...]


def plan_vector_scans(
    targets: Sequence[StoreTarget], files: FileFilter | None, hnsw_min_chunks: int
) -> list[VectorScan]:
    """Return the branches that together cover every target once.

    Exact up to ``hnsw_min_chunks`` a store and for small file filters; the shared HNSW for
    stores with at least 1 % of their space; a store's own partial HNSW otherwise.
    """
    by_way: dict[tuple[int, int, str, int], list[int]] = defaultdict(list)
    few_files = files is not None and files.n_chunks <= MAX_EXACT
    n_small: dict[int, int] = defaultdict(int)
    for target in targets:
        if target.n_chunks <= hnsw_min_chunks:
            n_small[target.space_id] += target.n_chunks
    for target in targets:
        is_small = target.n_chunks <= hnsw_min_chunks and n_small[target.space_id] <= MAX_EXACT
        if few_files or is_small:
            way = "exact"
        elif target.has_partial and target.share < MIN_SHARE:
            way = "partial"
        else:
            way = "hnsw" if target.has_hnsw else "exact"
        own = target.store_id if way == "partial" else 0
        by_way[target.space_id, target.dim, way, own].append(target.store_id)
    return [VectorScan(key[0], key[1], key[2], tuple(ids)) for key, ids in by_way.items()]


# From so many chunks on a search looks at more candidates.
LARGE = 300_000


class PostgresIndex:
    """The search port on Postgres: exact BM25 and halfvec in one round trip."""

    def search(self, query: IndexQuery) -> tuple[list[Hit], dict[int, str]]:
        """Return hits, best first, and the route that each space's vectors took."""
        if not query.targets:
            return [], {}
        with_vectors = [target for target in query.targets if target.space_id in query.vectors]
        branches = plan_vector_scans(with_vectors, query.files, conf().hnsw_min_chunks)
        hits = hybrid_search(query, _legs(query, branches))
        if len(hits) < query.top_k and any(branch.way == "hnsw" for branch in branches):
            # The iterative scan gave up before it met enough rows that pass a rare filter.
            branches = [VectorScan(b.space_id, b.dim, "exact", b.store_ids) for b in branches]
            hits = hybrid_search(query, _legs(query, branches))
        routes: dict[int, str] = {}
        for branch in branches:
            known = routes.get(branch.space_id)
            routes[branch.space_id] = f"{known}+{branch.way}" if known else branch.way
        return hits, routes


def _legs(query: IndexQuery, branches: Sequence[VectorScan]) -> CandidateLegs:
    return CandidateLegs(
        vectors=[_vector_leg(query, branch) for branch in branches],
        words="rag_terms(x.w) && (SELECT must FROM q)",
        params={},
        ef_search=_ef_search(query),
    )


def _ef_search(query: IndexQuery) -> int:
    # What a filter leaves lies further out, and so does much of a larger graph: a short list of
    # candidates misses some.
    is_large = sum(target.n_chunks for target in query.targets) > LARGE
    if leaves_out_files(query):
        return 800 if is_large else 400
    if any(target.share < 0.9 for target in query.targets):
        return 400 if is_large else 200
    return 160 if is_large else 120


def _vector_leg(query: IndexQuery, branch: VectorScan) -> str:
    space = int(branch.space_id)
    distance = f"x.embedding::halfvec({branch.dim}) <=> %(e{space})s::halfvec({branch.dim})"
    # An added zero hides the order from the index, so that the scan is exact.
    order = f"({distance}) + 0" if branch.way == "exact" else distance
    return (
        f"(SELECT chunk_id, {space} AS space_id, 1 - dist AS sim FROM (SELECT x.chunk_id, "
        f"{order} AS dist FROM rag_chunk_vec_s{space} x "
        f"WHERE {filter_conditions(query, branch.store_ids)} ORDER BY dist LIMIT %(k)s) y)"
    )
