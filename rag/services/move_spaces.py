"""Both spaces of a moving store get every change. In: a store and texts. Out: vectors."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rag import models
from rag.core.errors import RAGError
from rag.services import wiring
from rag.services.move_fill import fill_space

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

logger = logging.getLogger(__name__)


def other_spaces(*, store_id: int) -> list[int]:
    """Return the spaces beside the live one that an open move keeps complete."""
    rows = models.ReindexRun.objects.moves().filter(store=store_id)
    for source, target, live in rows.values_list("source", "target", "store__space"):
        return sorted({source, target} - {live, None})
    return []


def fill_others(*, store_id: int, file_ids: Sequence[int] | None = None) -> None:
    """Give what has just changed its vectors in the other spaces too.

    Where their model fails, the site goes on: the gap is logged, and filled before any swap.
    """
    for space_id in other_spaces(store_id=store_id):
        try:
            fill_space(space_id=space_id, store_id=store_id, file_ids=file_ids)
        except RAGError as error:
            logger.warning("space %s of store %s has a gap: %s", space_id, store_id, error)


def embed_for_others(*, store_id: int, indexed: str) -> dict[int, NDArray[np.float32]]:
    """Return a text's vector in each of the other spaces whose model answers."""
    vectors: dict[int, NDArray[np.float32]] = {}
    for space_id in other_spaces(store_id=store_id):
        try:
            vectors[space_id] = wiring.embedder_of(space_id).embed_passages([indexed])[0]
        except RAGError as error:
            logger.warning("space %s of store %s has a gap: %s", space_id, store_id, error)
    return vectors


def kept_spaces(
    *, store_id: int, vectors: Mapping[int, NDArray[np.float32]]
) -> dict[int, NDArray[np.float32]]:
    """Return those vectors whose space the store still keeps; for a transaction that holds it."""
    live = models.Store.objects.values_list("space_id", flat=True).get(pk=store_id)
    kept = {live, *other_spaces(store_id=store_id)}
    return {space_id: vector for space_id, vector in vectors.items() if space_id in kept}
