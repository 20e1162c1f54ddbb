"""A question's vector in a space, through the cache. In: space and text. Out: the vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag.services import wiring

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def embed_query(*, space_id: int, query: str) -> NDArray[np.float32]:
    """Return float32 [dim], as the space's own model makes it."""
    return wiring.embedder_of(space_id).embed_query(query)
