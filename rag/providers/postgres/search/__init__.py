"""Hybrid search on Postgres: exact BM25 and pgvector in one statement, with filters."""
