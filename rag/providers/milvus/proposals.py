"""Milvus candidates: chunk ids by vector and words.

Its filters only spare proposals that Postgres would refuse: what it holds may be out of date.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag.core.ports import IndexQuery
from rag.providers.milvus.collections import VECTOR_FIELD, WORDS_FIELD, collection_name
from rag.providers.milvus.server import MilvusServer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# As many as Milvus returns at most.
MOST = 16_384
# More files would make the filter longer than it is worth; Postgres filters them alone.
MAX_FILES = 10_000


def propose(
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


def proposal_filter(query: IndexQuery, store_ids: Sequence[int]) -> str:
    """Return what the query lets through of these stores, as Milvus reads it."""
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
