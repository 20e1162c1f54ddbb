"""How sure a search is of what it found. In: its hits and where it looked. Out: 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence

from rag.core.hits import Hit
from rag.core.ports import StoreTarget
from rag.services.judge_hits import judge_hits

# The best hits tell whether anything good was found; judging more would cost the search time.
N_JUDGED = 3


def confidence_of(
    *, query: str, hits: Sequence[Hit], targets: Sequence[StoreTarget]
) -> float | None:
    """Return how sure the search is of its best hits, None where there are none."""
    if not hits:
        return None
    # A target names the model that was searched with, which a move may have left behind by now.
    models_of = {target.store_id: target.model for target in targets}
    return judge_hits(query=query, hits=hits[:N_JUDGED], models_of=models_of).confidence
