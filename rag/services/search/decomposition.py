"""Decomposed search: each part of a question is searched, and the hits take turns.

Of a question of two hops the names in the passages of the first make the second question. At most
five searches come on top of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from rag.core.hits import Hit
from rag.core.types import SearchResult
from rag.stages.query.decompose import Decomposition, best_described, bridge_names

# How many passages of the first hop may name what the second is asked of.
N_BRIDGES = 2
MOST_NAMES = 4
# As many are shown at least, unless the settings name a number: each part needs its own.
LEAST_HITS = 5

PartSearch = Callable[[str], SearchResult]


def search_parts(
    *, found: SearchResult, parts: Decomposition, search: PartSearch, top_k: int | None
) -> SearchResult:
    """Return ``found`` with the hits of each part; ``top_k`` None lets it grow to hold them.

    The best hit of the whole question stays the first. What its parts can answer it can, and no
    surer than the least sure of them.
    """
    searched = [search(part) for part in parts.parts]
    if parts.has_hops:
        described = parts.parts[0]
        for name in _names(described, [*searched[0].hits, *found.hits]):
            searched.append(search(parts.second_question(name)))
    n_hits = top_k or max(found.top_k, LEAST_HITS)
    hits = _in_turns([found.hits, *(one.hits for one in searched)], n_hits)
    questions = [one.query for one in searched]
    return replace(
        found,
        hits=hits,
        top_k=n_hits,
        **_judged(found, searched[: len(parts.parts)] + searched[len(parts.parts) :][:1]),
        metadata={
            **found.metadata,
            "top_k": n_hits,
            "returned": len(hits),
            "decomposition": {"has_hops": parts.has_hops, "queries": questions},
        },
    )


def _names(description: str, hits: Sequence[Hit]) -> list[str]:
    """Return the names in the hits that hold most of a description, the first of each first."""
    texts = list(dict.fromkeys(hit.text for hit in hits))
    best = [texts[place] for place in best_described(description, texts)[:N_BRIDGES]]
    named = zip_longest(*(bridge_names(description, text) for text in best))
    return list(dict.fromkeys(name for row in named for name in row if name))[:MOST_NAMES]


def _in_turns(lists: Sequence[Sequence[Hit]], n_hits: int) -> tuple[Hit, ...]:
    """Return the first hit of each list, then the second of each; no chunk twice.

    A hit that holds one before it takes its place.
    """
    chosen: list[tuple[set[object], Hit]] = []
    for hit in (hit for row in zip_longest(*lists) for hit in row if hit is not None):
        keys: set[object] = set(hit.chunk_ids) or {(hit.source, hit.document_id, hit.text)}
        touched = [place for place, (other, _) in enumerate(chosen) if other & keys]
        if not touched and len(chosen) < n_hits:
            chosen.append((keys, hit))
        elif len(touched) == 1 and chosen[touched[0]][0] < keys:
            chosen[touched[0]] = (keys, hit)
    return tuple(replace(hit, rank=rank) for rank, (_, hit) in enumerate(chosen, start=1))


def _judged(found: SearchResult, searched: Sequence[SearchResult]) -> dict[str, Any]:
    """Return confidence and answerability: the whole question's, or the least of its parts'."""
    sure = [one.confidence for one in searched if one.confidence is not None]
    confidence = (
        max(found.confidence or 0.0, min(sure, default=0.0)) if found.hits or sure else None
    )
    judged = [one.answerability for one in searched]
    if not judged or any(one is None for one in judged) or found.answerability is None:
        return {"confidence": confidence}
    least = min((one for one in judged if one is not None), key=lambda one: one.probability)
    best = max((found.answerability, least), key=lambda one: one.probability)
    return {"confidence": confidence, "answerability": best}
