"""Not every place to one file. In: hits, best first, and a number. Out: so many of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from rag.core.hits import Hit

MAX_SHARE = 0.6
# A hit of another file takes a place when it has so much of the score of the one it displaces.
NEAR = 0.85


def diversify(hits: Sequence[Hit], top_k: int) -> list[Hit]:
    """Return the ``top_k`` best hits, numbered from 1, in the order in which they came.

    A file has at most 60 % of the places (two at least) while other files have hits whose scores
    come near; hits without a score or far behind never displace a better one.
    """
    limit = max(2, ceil(MAX_SHARE * top_k))
    chosen = list(range(min(top_k, len(hits))))
    n_of = Counter(_file(hits[place]) for place in chosen)
    waiting = list(range(len(chosen), len(hits)))
    for place in reversed(chosen.copy()):
        if n_of[_file(hits[place])] <= limit:
            continue
        better = next(
            (
                other for other in waiting
                if n_of[_file(hits[other])] < limit and _is_near(hits[other], hits[place])
            ),
            None,
        )  # fmt: skip
        if better is not None:
            waiting.remove(better)
            chosen.remove(place)
            chosen.append(better)
            n_of[_file(hits[place])] -= 1
            n_of[_file(hits[better])] += 1
    return [replace(hits[place], rank=rank) for rank, place in enumerate(sorted(chosen), start=1)]


def _file(hit: Hit) -> tuple[str, int | None, str]:
    return hit.source, hit.store_id, hit.document_id or hit.file_name


def _is_near(hit: Hit, better: Hit) -> bool:
    if hit.score is None or better.score is None or better.score <= 0:
        return False
    return hit.score >= NEAR * better.score
