"""Confidence and answerability of a search: how near its hits are, and whether they can answer.

Cosines of different embedding models are mapped to one scale before they are compared. Nothing
costs a model call; the index is asked only for what no candidate mentions, one bounded statement
for each such thing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.analysis import Answerability, MissingTerm
from rag.core.hits import Hit
from rag.providers.postgres.lexical.bm25 import term_key
from rag.providers.postgres.search.term_lookup import find_chunks_by_terms
from rag.stages.query.analyze import analyze_query
from rag.stages.query.answerability import SearchEvidence, judge_answerability
from rag.stages.query.references import (
    Reference,
    find_references,
    is_written_alike,
    missing_references,
    nearest_mention,
)
from rag.stages.text.terms import content_terms, index_terms


class _QueryTerms(NamedTuple):
    """The weighted content terms, and whether a search asks for all of them."""

    content: dict[str, float]
    is_subset: bool


def lexical_overlap(*, query: str, text: str, matched: Collection[str] = ()) -> float:
    """Return which part of a question's content words a text holds, 0 to 1.

    ``matched`` are the words that a search for the same question has found in the text: cutting a
    few texts into words anew takes as long as all else that follows a search.
    """
    terms = _query_terms(query)
    held = matched if matched and terms.is_subset else _text_terms(text)
    found = sum(weight for term, weight in terms.content.items() if term in held)
    whole = sum(terms.content.values())
    return found / whole if whole else 0.0


@lru_cache(maxsize=256)
def _query_terms(query: str) -> _QueryTerms:
    content = content_terms(" ".join(analyze_query(query, {}).keywords) or query)
    return _QueryTerms(content, content.keys() <= content_terms(query).keys())


# Hits are judged when they are found, and again by an agent.
@lru_cache(maxsize=256)
def _text_terms(text: str) -> frozenset[str]:
    return frozenset(index_terms(text))


Scale = Sequence[tuple[float, float]]
# Cosine to calibrated similarity, by provider. Measured for e5 with the demo's 35 questions and
# 15 about other things: first hits have cosines of 0.16 to 0.65, of 0.04 to 0.20 where no word is
# shared.
SCALES: dict[str, Scale] = {"e5": ((0.0, 0.0), (0.14, 0.5), (0.165, 0.7), (0.5, 1.0))}
IDENTITY: Scale = ((0.0, 0.0), (1.0, 1.0))


@dataclass(frozen=True, slots=True)
class ThresholdedHits:
    """The hits that pass, how sure the search is of the best, and how many did not pass."""

    hits: tuple[Hit, ...]
    confidence: float
    n_below: int


def filter_by_threshold(
    *,
    query: str,
    hits: Sequence[Hit],
    models_of: Mapping[int, str] | None = None,
    vector_threshold: float = 0.0,
    bm25_threshold: float = 0.0,
) -> ThresholdedHits:
    """Return the hits that are like enough by meaning, or by words.

    ``vector_threshold`` is a calibrated similarity, ``bm25_threshold`` a BM25 score. Words alone
    let a hit pass that has a similarity only where the latter is above 0; else any common word
    would. The confidence is the best similarity or, if that is more, the best lexical overlap of a
    hit. A hit of a source that tells no score passes and is taken for sure. ``models_of`` maps a
    store to the embedding model that its hits were found with; without it the stores are read.
    """
    known = _live_models(hits) if models_of is None else models_of
    scales = {pk: _scale(model) for pk, model in known.items()}
    kept, best = [], 0.0
    for hit in hits:
        scale, cosine = scales.get(hit.store_id or 0, IDENTITY), hit.vector.score
        similarity = 0.0 if cosine is None else _interpolate(scale, cosine)
        words = hit.lexical.score or 0.0
        is_told = cosine is not None or hit.lexical.score is not None
        is_like = cosine is not None and similarity >= vector_threshold
        counts_words = cosine is None or bm25_threshold > 0
        if is_like or (counts_words and 0 < words >= bm25_threshold) or not is_told:
            kept.append(hit)
            named = hit.matched_terms
            share = lexical_overlap(query=query, text=hit.text, matched=named) if words > 0 else 0.0
            best = max(best, similarity, share, 0.0 if is_told else 1.0)
    return ThresholdedHits(tuple(kept), round(best, 3), len(hits) - len(kept))


def similarity_of(hit: Hit, models_of: Mapping[int, str]) -> float | None:
    """Return a hit's calibrated similarity; None without a vector or without a calibration."""
    model = models_of.get(hit.store_id or 0, "")
    if hit.vector.score is None or not has_calibration(model):
        return None
    return _interpolate(_scale(model), hit.vector.score)


def has_calibration(model: str) -> bool:
    """Return whether it is known what an embedding model's cosines mean."""
    return _scale(model) is not IDENTITY


def calibrated_similarity(*, model: str, cosine: float) -> float:
    """Return what a cosine of an embedding model means, 0 to 1: 0.5 is doubtful."""
    return _interpolate(_scale(model), cosine)


def _live_models(hits: Sequence[Hit]) -> dict[int, str]:
    ids = {hit.store_id for hit in hits if hit.store_id is not None}
    rows = models.Store.objects.filter(pk__in=ids).values_list("pk", "space__model")
    return {pk: model or "" for pk, model in rows}


def _scale(model: str) -> Scale:
    own = conf().likeness.get(model)
    if own:
        return [(float(cosine), float(similarity)) for cosine, similarity in own]
    return SCALES.get(model.partition(":")[0], IDENTITY)


def _interpolate(scale: Scale, cosine: float) -> float:
    if cosine <= scale[0][0]:
        return scale[0][1]
    for (low, first), (high, last) in pairwise(scale):
        if cosine <= high:
            return first + (last - first) * (cosine - low) / (high - low)
    return scale[-1][1]


# The best hits tell whether anything good was found; judging more would cost the search time.
N_JUDGED = 3


def search_confidence(
    *, query: str, hits: Sequence[Hit], models_of: Mapping[int, str]
) -> float | None:
    """Return how sure the search is of its best hits, None where there are none.

    ``models_of`` names the models searched with, which a move may have left behind by now.
    """
    if not hits:
        return None
    return filter_by_threshold(query=query, hits=hits[:N_JUDGED], models_of=models_of).confidence


# Texts read for one reference: those that hold all its words. Where there are more, it is taken for
# mentioned: nobody shall be told otherwise by mistake.
MAX_READ = 20


def search_answerability(
    *,
    query: str,
    hits: Sequence[Hit],
    pool: Sequence[Hit],
    models_of: Mapping[int, str],
    scope: Scope,
) -> Answerability | None:
    """Return whether ``hits``, chosen of the candidates ``pool``, can answer the question.

    ``models_of`` names the embedding model of each store searched. None where nothing can be told,
    see ``judge_answerability``.
    """
    evidence = SearchEvidence(
        query=query,
        hits=hits,
        pool=pool,
        similarities=[similarity_of(hit, models_of) for hit in hits],
    )
    return judge_answerability(evidence, _missing(query, pool, list(models_of), scope))


def _missing(
    query: str, pool: Sequence[Hit], store_ids: Sequence[int], scope: Scope
) -> list[MissingTerm]:
    """Return the references of a question that no readable chunk of the stores mentions."""
    named = find_references(query)
    if any(one.kind == "name" for one in named) and not is_written_alike(query, pool):
        # Another language writes names otherwise.
        named = [one for one in named if one.kind != "name"]
    return [
        nearest_mention(one, pool)
        for one in missing_references(named, pool)
        if not _is_mentioned(one, store_ids, scope)
    ]


def _is_mentioned(reference: Reference, store_ids: Sequence[int], scope: Scope) -> bool:
    held = models.Chunk.objects.live().readable(scope).filter(enabled=True, store__in=store_ids)
    for terms in reference.lookups:
        keys = [[term_key(store, term) for store in store_ids] for term in terms]
        found = find_chunks_by_terms(held, keys, MAX_READ)
        texts = models.Chunk.objects.filter(pk__in=found).values_list("text", flat=True)
        if len(found) == MAX_READ or (found and any(map(reference.is_in, texts))):
            return True
    return False
