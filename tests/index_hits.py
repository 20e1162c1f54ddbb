"""Chunks as the index has them, before they are merged and thinned out."""

from __future__ import annotations

from collections.abc import Sequence

from rag import models
from rag.core.access import Scope
from rag.core.ports import FileFilter
from rag.core.types import RetrievalSettings
from rag.services.search.engine import Candidates, run_search


def index_hits(
    *,
    query: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    files: FileFilter | None = None,
) -> Candidates:
    """Return the chunks that the engine finds, five where the settings name no number."""
    settings = settings or stores[0].retrieval_settings
    settings = settings.but(top_k=settings.top_k or 5)
    return run_search(query=query, scope=scope, stores=stores, settings=settings, files=files)
