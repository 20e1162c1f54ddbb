"""Facts: tables, constraints, querysets. No deeds, no network, no signals."""

from __future__ import annotations

from rag.models.api_key import ApiKey
from rag.models.chunk import Chunk, ChunkRevision
from rag.models.file import File
from rag.models.query_log import QueryLog
from rag.models.space import EmbeddingSpace
from rag.models.store import Store

__all__ = ["ApiKey", "Chunk", "ChunkRevision", "EmbeddingSpace", "File", "QueryLog", "Store"]
