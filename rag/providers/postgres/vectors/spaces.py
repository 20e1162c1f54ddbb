"""DDL of embedding spaces at run time: partitions and HNSW indexes."""

from __future__ import annotations

from multiprocessing import cpu_count

from django.db import connection
from psycopg.pq import TransactionStatus

from rag.providers.postgres.db.connections import execute, fetch_row

_RUNS = (TransactionStatus.IDLE, TransactionStatus.INTRANS)
M = 16
# More cost each new chunk of a large store time, and find no more of it: 64 to 128 were tried.
EF_CONSTRUCTION = 100
MAX_PLAIN_DIM = 3900
# As an expression, for whoever asks for rows at the same time.
VALID_INDEXES = (
    "ARRAY(SELECT c.relname::text FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid"
    " WHERE i.indisvalid AND c.relname LIKE 'rag\\_chunk\\_vec\\_s%%')"
)


def create_partition(space_id: int, dim: int) -> None:
    """Make the vector partition of a space; nothing happens when it exists.

    Its CHECK refuses vectors of another dimension. HNSW comes later, when it pays.
    """
    space_id, dim = int(space_id), int(dim)
    table = f"rag_chunk_vec_s{space_id}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [table])
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [table])
        if cursor.fetchone()[0]:
            return
        cursor.execute(
            f"CREATE TABLE {table} PARTITION OF rag_chunk_vec"
            f" (CHECK (vector_dims(embedding) = {dim})) FOR VALUES IN ({space_id})"
        )
        if dim <= MAX_PLAIN_DIM:
            cursor.execute(f"ALTER TABLE {table} ALTER embedding SET STORAGE PLAIN")
        cursor.execute(f"CREATE INDEX {table}_store ON {table} (store_id)")
        cursor.execute(f"CREATE INDEX {table}_file ON {table} (file_id)")


def drop_partition(space_id: int) -> None:
    """Drop a space's vectors."""
    execute(f"DROP TABLE IF EXISTS rag_chunk_vec_s{int(space_id)}")


def valid_indexes() -> set[str]:
    """Return the names of all vector indexes that are built and valid."""
    return set(fetch_row(f"SELECT {VALID_INDEXES}", [])[0])


def index_name(space_id: int, store_id: int | None = None) -> str:
    """Return the name of a space's shared HNSW index, or of one store's own."""
    suffix = "hnsw" if store_id is None else f"store{int(store_id)}"
    return f"rag_chunk_vec_s{int(space_id)}_{suffix}"


def build_hnsw(
    space_id: int, dim: int, *, store_id: int | None = None, concurrently: bool = True
) -> None:
    """Build the space's shared HNSW index, or a partial one for a store with a small share.

    ``concurrently`` leaves writers free and must not run inside a transaction. A leftover of a
    build that died is removed first.
    """
    name = index_name(space_id, store_id)
    where = "" if store_id is None else f" WHERE store_id = {int(store_id)}"
    how = "CONCURRENTLY" if concurrently else ""
    with connection.cursor() as cursor:
        # Below the size of the graph the build degrades without any error.
        cursor.execute("SET maintenance_work_mem = '2GB'")
        # More processes than cores wait for each other: 40 s instead of 29 on two. Beside a site
        # that answers one core is left to it, or searches take twice as long meanwhile.
        n_workers = cpu_count() - (2 if concurrently else 1)
        cursor.execute(f"SET max_parallel_maintenance_workers = {max(0, min(4, n_workers))}")
        try:
            cursor.execute(f"DROP INDEX {how} IF EXISTS {name}")
            cursor.execute(
                f"CREATE INDEX {how} {name} ON rag_chunk_vec_s{int(space_id)}"
                f" USING hnsw ((embedding::halfvec({int(dim)})) halfvec_cosine_ops)"
                f" WITH (m = {M}, ef_construction = {EF_CONSTRUCTION}){where}"
            )
        finally:
            # A transaction that failed takes them back itself, and runs nothing more.
            if connection.connection.info.transaction_status in _RUNS:
                cursor.execute("RESET maintenance_work_mem")
                cursor.execute("RESET max_parallel_maintenance_workers")
