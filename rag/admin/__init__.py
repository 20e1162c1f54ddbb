"""The knowledge manager's desk: pages that parse, call one service and render."""

from __future__ import annotations

from rag.admin import (
    account,
    api_key,
    audit,
    chunk,
    chunk_conflict,
    evaluation,
    file,
    golden,
    job,
    query_log,
    reindex,
    revision,
    space,
    store,
    usage,
)  # fmt: skip

__all__ = [
    "account", "api_key", "audit", "chunk", "chunk_conflict", "evaluation", "file", "golden", "job",
    "query_log", "reindex", "revision", "space", "store", "usage",
]  # fmt: skip
