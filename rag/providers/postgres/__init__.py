"""Search, writing and spaces on Postgres with pgvector; the SQL lies beside the code."""

from __future__ import annotations
