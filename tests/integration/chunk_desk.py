"""What tests of chunks that people write look at: both indexes, statistics and searches."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from rag import models
from rag.core.access import Scope
from rag.core.types import RetrievalSettings
from rag.services.wiring import registry as wiring
from tests.index_hits import index_hits
from tests.integration.index_desk import WatchedEmbedder

OPERATOR = Scope.operator()


def watch_words(store: models.Store, monkeypatch: pytest.MonkeyPatch) -> WatchedEmbedder:
    """Let the store's space be embedded by hashed words, for texts and for queries."""
    made = WatchedEmbedder(store.space.dim)
    monkeypatch.setattr(wiring, "embedder_of", lambda space_id: made)
    return made


def found(store: models.Store, query: str, **settings: Any) -> list[int | None]:
    """Return the chunks that a search finds, best first."""
    chosen = RetrievalSettings(**{"mode": "keyword", **settings})
    result = index_hits(query=query, scope=OPERATOR, stores=[store], settings=chosen)
    return [hit.chunk_id for hit in result.hits]


def nearest(store: models.Store, query: str) -> int | None:
    """Return the chunk whose vector is nearest to the query's."""
    hits = found(store, query, mode="semantic", top_k=1)
    return hits[0] if hits else None


def ask(sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def check_index(store: models.Store) -> None:
    """Hold both indexes and all counts to the chunks' own rows."""
    store.refresh_from_db()
    live = ask(
        "SELECT id, enabled, content_type FROM rag_chunk WHERE store_id = %s AND is_live ORDER BY 1",
        store.pk,
    )
    for table in ("rag_chunk_vec", "rag_chunk_lex"):
        query = (
            f"SELECT chunk_id, enabled, content_type FROM {table} WHERE store_id = %s ORDER BY 1"
        )
        assert ask(query, store.pk) == live, table
    assert store.n_chunks == len(live)
    assert [(store.sum_len,)] == ask(
        "SELECT coalesce(sum(len), 0) FROM rag_chunk_lex WHERE store_id = %s", store.pk
    )
    counted = ask(
        "SELECT key, count(*)::int FROM rag_chunk_lex, unnest(rag_terms(w)) key WHERE store_id = %s GROUP BY 1 ORDER BY 1",
        store.pk,
    )
    assert (
        ask("SELECT key, df FROM rag_term_df WHERE store_id = %s AND df <> 0 ORDER BY 1", store.pk)
        == counted
    )
    for file_id, n in ask("SELECT f.id, f.n_chunks FROM rag_file f WHERE store_id = %s", store.pk):
        assert ask("SELECT count(*) FROM rag_chunk WHERE file_id = %s AND is_live", file_id) == [
            (n,)
        ]
