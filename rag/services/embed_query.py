"""A question's vector in a space, through the cache. In: space and text. Out: the vector."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from rag.providers.postgres.connections import release_db
from rag.services import wiring
from rag.services.caches import place_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The same text has the same vector for ever; what nobody asks for any more still has to go.
KEEP_S = 30 * 86400.0
# Providers that ask no service.
ON_THIS_MACHINE = frozenset({"e5", "use", "sentence_transformers"})


def embed_query(*, space_id: int, query: str) -> NDArray[np.float32]:
    """Return float32 [dim], bit for bit as the space's own model makes it."""
    embedder = wiring.embedder_of(space_id)
    place = place_of("vectors")
    model = [embedder.id, embedder.dim, embedder.version]
    name = place.seal.name(json.dumps([*model, query]).encode())
    found = place.find(name)
    place.count("misses" if found is None else "hits")
    if found is not None and len(found) == 4 * embedder.dim:
        return np.frombuffer(found, "<f4").astype(np.float32)
    if embedder.id.partition(":")[0] not in ON_THIS_MACHINE:
        # A service may take a minute to answer; a connection held so long is missed by others.
        release_db()
    vector = embedder.embed_query(query)
    place.keep(name, vector.astype("<f4").tobytes(), KEEP_S)
    return vector
