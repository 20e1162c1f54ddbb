"""The knowledge manager's desk: pages that parse, call one service and render."""

from __future__ import annotations

from rag.admin.accounts import account, api_key
from rag.admin.chunks import chunk, revision
from rag.admin.chunks import conflict as chunk_conflict
from rag.admin.evaluation import evaluation, golden
from rag.admin.files import file
from rag.admin.operations import audit, job, query_log, reindex, usage
from rag.admin.stores import space, store

__all__ = [
    "account",
    "api_key",
    "audit",
    "chunk",
    "chunk_conflict",
    "evaluation",
    "file",
    "golden",
    "job",
    "query_log",
    "reindex",
    "revision",
    "space",
    "store",
    "usage",
]
