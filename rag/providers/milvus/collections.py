"""Milvus collections, one of vectors for each space and one of words, and how they are fed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rag.models.outbox import WORDS
from rag.providers.milvus.server import MilvusServer, import_pymilvus
from rag.providers.postgres.db.connections import database_id
from rag.providers.postgres.outbox.feed_rows import FeedRow
from rag.providers.postgres.vectors.spaces import EF_CONSTRUCTION, M

VECTOR_FIELD, WORDS_FIELD = "vector", "words"
# Of a restricted file; one with more groups counts as open here, and Postgres sees to it.
MAX_GROUPS = 1000
_REST = re.compile(r"words|vectors_(\d+)")


def collection_name(space_id: int) -> str:
    """Return the name of a space's collection, or of the words' (0).

    It is this database's own: several may share a Milvus.
    """
    return f"{_prefix()}vectors_{int(space_id)}" if space_id else f"{_prefix()}words"


def make_collection(server: MilvusServer, space_id: int, dim: int) -> None:
    """Make a collection unless it is there; words need no dimension."""
    name = collection_name(space_id)
    if server.call("has_collection", name):
        return
    pymilvus = import_pymilvus()
    kinds = pymilvus.DataType
    schema = pymilvus.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("chunk_id", kinds.INT64, is_primary=True)
    schema.add_field("store_id", kinds.INT64)
    schema.add_field("file_id", kinds.INT64)
    # At most 60 characters, told in bytes.
    schema.add_field("content_type", kinds.VARCHAR, max_length=240)
    schema.add_field("is_open", kinds.BOOL)
    schema.add_field("groups", kinds.ARRAY, element_type=kinds.INT64, max_capacity=MAX_GROUPS)
    index = pymilvus.MilvusClient.prepare_index_params()
    if space_id:
        schema.add_field(VECTOR_FIELD, kinds.FLOAT_VECTOR, dim=dim)
        graph = {"M": M, "efConstruction": EF_CONSTRUCTION}
        index.add_index(VECTOR_FIELD, index_type="HNSW", metric_type="COSINE", params=graph)
    else:
        schema.add_field(WORDS_FIELD, kinds.SPARSE_FLOAT_VECTOR)
        index.add_index(WORDS_FIELD, index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
    server.call("create_collection", name, schema=schema, index_params=index)


def fed_spaces(server: MilvusServer) -> set[int]:
    """Return the numbers of the collections that are there, 0 for the words."""
    names: list[str] = server.call("list_collections")
    own = [name.removeprefix(_prefix()) for name in names if name.startswith(_prefix())]
    return {int(found[1] or WORDS) for found in map(_REST.fullmatch, own) if found}


def drop_collection(server: MilvusServer, space_id: int) -> None:
    """Remove a collection and all that is in it."""
    server.call("drop_collection", collection_name(space_id))


def count_chunks(server: MilvusServer, space_id: int) -> int:
    """Return how many chunks a collection has; raise NotFoundError where there is none."""
    rows: list[dict[str, Any]] = server.read(
        "query",
        collection_name(space_id),
        filter="",
        output_fields=["count(*)"],
        consistency_level="Strong",
    )
    return int(rows[0]["count(*)"])


def _prefix() -> str:
    return f"citable_{database_id()}_"


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


def iterate_chunk_ids(server: MilvusServer, space_id: int) -> Iterator[list[int]]:
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
