"""Milvus proposes chunks by vector and by words; Postgres decides on them and scores them."""

from __future__ import annotations
