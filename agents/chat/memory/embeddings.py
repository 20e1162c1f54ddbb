"""Embeddings of memories by the installation's embedding model; holds no connection meanwhile."""

from __future__ import annotations

import logging

from django.db import connections

from rag.core.errors import RAGError
from rag.services.wiring import registry as wiring

log = logging.getLogger(__name__)


def current_memory_space() -> str:
    """Return what names the vectors that the configured model makes now."""
    embedder = wiring.embedder()
    return f"{embedder.id}|{embedder.dim}|{embedder.version}"[:460]


def embed_memories(texts: list[str]) -> tuple[list[list[float] | None], str]:
    """Return a vector for each text and their space; None and an empty one if the model fails.

    What has no vector yet is not lost: upkeep asks the model again.
    """
    _release()
    try:
        made = [] if not texts else wiring.embedder().embed_passages(texts).tolist()
    except RAGError as error:
        log.warning("Memories are kept without vectors for now: %s", error)
        return [None] * len(texts), ""
    return list(made), current_memory_space()


def embed_memory_question(query: str) -> list[float]:
    """Return the vector of a question; raise RAGError when the model fails."""
    _release()
    vector: list[float] = wiring.embedder().embed_query(query).tolist()
    return vector


def _release() -> None:
    # A model may take its time: nobody keeps a connection meanwhile.
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
