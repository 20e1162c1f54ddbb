"""Which way each store's vectors are searched. In: targets. Out: branches of the statement.

The planner picks wrongly between an exact scan and HNSW, so the choice is made here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rag.core.ports import FileFilter, StoreTarget

MIN_SHARE = 0.01
MAX_EXACT = 20_000


@dataclass(frozen=True, slots=True)
class Branch:
    """One way through one space: ``exact``, ``hnsw`` (shared) or ``partial`` (of one store)."""

    space_id: int
    dim: int
    way: str
    store_ids: tuple[int, ...]


def plan_branches(
    targets: Sequence[StoreTarget], files: FileFilter | None, hnsw_min_chunks: int
) -> list[Branch]:
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
    return [Branch(key[0], key[1], key[2], tuple(ids)) for key, ids in by_way.items()]
