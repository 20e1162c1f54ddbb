"""Milvus feeding: upserts and deletes that follow Postgres."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rag.providers.milvus.collections import (
    MAX_GROUPS,
    VECTOR_FIELD,
    WORDS_FIELD,
    collection_name,
)
from rag.providers.milvus.server import MilvusServer
from rag.providers.postgres.outbox.feed_rows import FeedRow

_READ_AT_ONCE = 10_000


def feed_collection(
    server: MilvusServer, space_id: int, rows: Sequence[FeedRow], gone: Sequence[int]
) -> None:
    """Write chunks over what is there, and remove those that are ``gone``; twice is like once."""
    name = collection_name(space_id)
    if rows:
        field = VECTOR_FIELD if space_id else WORDS_FIELD
        server.call("upsert", name, data=[_entity(row, field) for row in rows])
    if gone:
        server.call("delete", name, ids=list(gone))


def stored_chunk_ids(server: MilvusServer, space_id: int) -> Iterator[list[int]]:
    """Yield the ids of all chunks of a collection, some at a time."""
    rows = server.read(
        "query_iterator",
        collection_name(space_id),
        filter="",
        output_fields=["chunk_id"],
        batch_size=_READ_AT_ONCE,
        consistency_level="Strong",
    )
    while found := server.watched(rows.next):
        yield [int(row["chunk_id"]) for row in found]
    rows.close()


def _entity(row: FeedRow, field: str) -> dict[str, Any]:
    groups = list(row.groups or ())
    is_open = row.groups is None or len(groups) > MAX_GROUPS
    return {
        "chunk_id": row.chunk_id,
        "store_id": row.store_id,
        "file_id": row.file_id,
        "content_type": row.content_type,
        "is_open": is_open,
        "groups": [] if is_open else groups,
        field: row.numbers,
    }
