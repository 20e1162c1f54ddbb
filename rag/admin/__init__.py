"""The knowledge manager's desk: pages that parse, call one service and render."""

from __future__ import annotations

from rag.admin import (
    account,
    api_key,
    chunk,
    chunk_conflict,
    file,
    job,
    query_log,
    revision,
    space,
    store,
)  # fmt: skip

__all__ = [
    "account", "api_key", "chunk", "chunk_conflict", "file", "job", "query_log", "revision",
    "space", "store",
]  # fmt: skip
