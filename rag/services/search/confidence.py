"""How sure a search is of what it found. In: its hits and where it looked. Out: 0 to 1.

How much of a question a text holds. In: both. Out: a share, 0 to 1.
How sure a search is of its hits. In: a question and hits. Out: those worth reading, 0 to 1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rag import models
from rag.conf import conf
from rag.core.hits import Hit
from rag.core.ports import StoreTarget
from rag.stages.query.analyze import analyze_query
from rag.stages.text.terms import index_terms, query_terms


class _Asked(NamedTuple):
    """The words that tell what is asked, and whether a search asks for all of them."""

    telling: dict[str, float]
    are_searched: bool


def word_share(*, query: str, text: str, matched: Collection[str] = ()) -> float:
    """Return which part of a question's telling words a text holds, 0 to 1.

    ``matched`` are the words that a search for the same question has found in the text: cutting a
    few texts into words anew takes as long as all else that follows a search.
    """
    asked = _asked(query)
    held = matched if matched and asked.are_searched else _held(text)
    found = sum(weight for term, weight in asked.telling.items() if term in held)
    whole = sum(asked.telling.values())
    return found / whole if whole else 0.0


@lru_cache(maxsize=256)
def _asked(query: str) -> _Asked:
    telling = query_terms(" ".join(analyze_query(query, {}).keywords) or query)
    return _Asked(telling, telling.keys() <= query_terms(query).keys())


# Hits are judged when they are found, and again by an agent.
@lru_cache(maxsize=256)
def _held(text: str) -> frozenset[str]:
    return frozenset(index_terms(text))


Scale = Sequence[tuple[float, float]]
# Cosine to likeness, by provider. Measured for e5 with the demo's 35 questions and 15 about other
# things: first hits have cosines of 0.16 to 0.65 and of 0.04 to 0.20 where no word is shared.
SCALES: dict[str, Scale] = {"e5": ((0.0, 0.0), (0.14, 0.5), (0.165, 0.7), (0.5, 1.0))}
AS_IS: Scale = ((0.0, 0.0), (1.0, 1.0))


@dataclass(frozen=True, slots=True)
class Judged:
    """The hits that pass, how sure the search is of the best, and how many did not pass."""

    hits: tuple[Hit, ...]
    confidence: float
    n_weak: int


def judge_hits(
    *,
    query: str,
    hits: Sequence[Hit],
    models_of: Mapping[int, str] | None = None,
    vector_threshold: float = 0.0,
    bm25_threshold: float = 0.0,
) -> Judged:
    """Return the hits that are like enough by meaning, or by words.

    ``vector_threshold`` is a likeness, ``bm25_threshold`` a BM25 score. The confidence is the best
    likeness or, if that is more, the best share of the question's words in a hit found by words.
    A hit of a source that tells no score passes and is taken for sure. ``models_of`` maps a store
    to the embedding model that its hits were found with; without it the stores are read.
    """
    scales = _scales(_live_models(hits) if models_of is None else models_of)
    kept, best = [], 0.0
    for hit in hits:
        likeness = _likeness(hit, scales)
        words = hit.lexical.score or 0.0
        is_told = hit.vector.score is not None or hit.lexical.score is not None
        passes = likeness >= vector_threshold or (words > 0 and words >= bm25_threshold)
        if passes or not is_told:
            kept.append(hit)
            named = hit.matched_terms
            share = word_share(query=query, text=hit.text, matched=named) if words > 0 else 0.0
            best = max(best, likeness, share, 0.0 if is_told else 1.0)
    return Judged(tuple(kept), round(best, 3), len(hits) - len(kept))


def likeness(*, model: str, cosine: float) -> float:
    """Return what a cosine of an embedding model means, 0 to 1: 0.5 is doubtful."""
    return _on(_scale(model), cosine)


def _live_models(hits: Sequence[Hit]) -> dict[int, str]:
    ids = {hit.store_id for hit in hits if hit.store_id is not None}
    rows = models.Store.objects.filter(pk__in=ids).values_list("pk", "space__model")
    return {pk: model or "" for pk, model in rows}


def _scales(models_of: Mapping[int, str]) -> dict[int | None, Scale]:
    return {pk: _scale(model) for pk, model in models_of.items()}


def _scale(model: str) -> Scale:
    own = conf().likeness.get(model)
    if own:
        return [(float(cosine), float(likeness)) for cosine, likeness in own]
    return SCALES.get(model.partition(":")[0], AS_IS)


def _likeness(hit: Hit, scales: dict[int | None, Scale]) -> float:
    cosine = hit.vector.score
    if cosine is None:
        return 0.0
    return _on(scales.get(hit.store_id, AS_IS), cosine)


def _on(scale: Scale, cosine: float) -> float:
    if cosine <= scale[0][0]:
        return scale[0][1]
    for (low, first), (high, last) in pairwise(scale):
        if cosine <= high:
            return first + (last - first) * (cosine - low) / (high - low)
    return scale[-1][1]


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
