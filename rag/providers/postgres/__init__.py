"""Postgres with pgvector: hybrid search, writes, vectors, BM25, outbox; SQL lies beside it."""

from __future__ import annotations
