"""Load the embedding model before the first question needs it."""

from __future__ import annotations

import logging

from rag.core.errors import RAGError
from rag.services import wiring

logger = logging.getLogger(__name__)


def warm_up() -> None:
    """Embed one word with the configured model; a model that fails is told when it is used."""
    try:
        wiring.embedder().embed_query("warm")
    except RAGError as error:
        logger.warning("The embedding model is not ready: %s", error)
