"""A question's hits as a ranking of what it expects. In: targets and hits. Out: names, in order."""

from __future__ import annotations

from collections.abc import Sequence

from rag.core.hits import Hit
from rag.services.golden_targets import Expected


def rank_targets(expected: Sequence[Expected], hits: Sequence[Hit]) -> list[str]:
    """Return what each hit stands for: the id of a target that it is the first to meet, or itself.

    Named chunks come before files, so that a hit that meets both leaves the file to another.
    """
    left = sorted(expected, key=lambda one: (one.chunk_ids is None, -one.grade))
    places = []
    for hit in hits:
        met = next((one for one in left if _meets(one, hit)), None)
        places.append(f"c{hit.chunk_id}" if met is None else str(met.target_id))
        left = [one for one in left if one is not met]
    return places


def _meets(expected: Expected, hit: Hit) -> bool:
    if expected.chunk_ids is None:
        return hit.file_id == expected.file_id
    return hit.chunk_id in expected.chunk_ids
