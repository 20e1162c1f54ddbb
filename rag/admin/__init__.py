"""Django admin of stores, files, chunks, evaluation, operations and accounts.

Pages parse, call one service and render; every queryset and permission is limited by a Scope.
"""

from __future__ import annotations

from rag.admin.accounts import api_key
from rag.admin.accounts import user as account
from rag.admin.chunks import chunk, revision
from rag.admin.chunks import conflict as chunk_conflict
from rag.admin.evaluation import golden
from rag.admin.evaluation import run as evaluation
from rag.admin.files import file
from rag.admin.operations import audit, job, query_log, reindex, usage
from rag.admin.stores import embedding_space as space
from rag.admin.stores import store

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
