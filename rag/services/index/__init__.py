"""Indexes that follow the chunks: vectors, HNSW indexes, BM25 weights, the outbox to Milvus."""

from __future__ import annotations

from rag.services.index.lexical_weights import (
    mark_dirty,
    refresh_statistics,
    reweigh_file,
    reweigh_if_drifted,
    reweigh_store,
)
from rag.services.index.outbox import drain_outbox, flush_outbox, start_outbox, stop_outbox
from rag.services.index.vectors import (
    backfill_shadow_spaces,
    backfill_space,
    build_pending_indexes,
    current_vectors,
    embed_chunks,
    embed_for_shadow_spaces,
    ensure_space,
    ensure_target_space,
    pending_indexes,
    queue_index_builds,
    stores_in_space,
    target_embedder,
)
