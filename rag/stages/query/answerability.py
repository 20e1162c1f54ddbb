"""Answerability classifier: logistic regression over what a search has found.

Its weights, ``answerability.json``, are made by ``python -m benchmarks.answerability --fit`` from
public questions. Similarities are calibrated ones, so that they mean the same for every model.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rag.core.analysis import Answerability, AnswerabilityVerdict, MissingTerm
from rag.core.hits import Hit
from rag.stages.query import cues_chinese, cues_english
from rag.stages.text.terms import content_terms, is_han

WEIGHTS = Path(__file__).with_name("answerability.json")
# Which features count: words and meaning; words alone, where no similarity is known; meaning
# alone, where question and passages are in different languages and share no words. A statement is
# worded further from what answers it than a question. What the other hits or the rest of the store
# are like does not count: it says more of a store than of the question.
FEATURES = {
    "both": ("best_similarity", "best_overlap", "agreement", "is_question"),
    "words": ("best_overlap", "pool_overlap", "is_question"),
    "meaning": ("best_similarity",),
}
_QUESTION = re.compile(rf"[?？]\s*$|^\W*(?:{cues_english.QUESTION})|{cues_chinese.QUESTION}", re.I)
_ENGLISH = re.compile(
    r"\b(?:the|what|how|which|when|where|who|whose|why|does|did|and|are|were|many|much)\b", re.I
)
_SEEN = 600
# So much of a question's words stands among the hits only where they share its language.
_SHARED = 0.34


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEvidence:
    """What a search has of a question: hits shown, all candidates, and calibrated similarities.

    ``similarities`` are those of the hits; None for one whose embedding model has no calibration,
    or that was found without vectors.
    """

    query: str
    hits: Sequence[Hit]
    pool: Sequence[Hit]
    similarities: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class AnswerabilityFeatures:
    """The features by name, and which of them count: a key of ``FEATURES``; empty for none."""

    case: str
    values: dict[str, float]


def answerability_features(evidence: SearchEvidence) -> AnswerabilityFeatures:
    """Return what the classifier is told; there is a hit."""
    terms = content_terms(evidence.query)
    similar = [one for one in evidence.similarities if one is not None]
    matched = [set(hit.matched_terms) for hit in evidence.hits]
    everywhere = {term for hit in evidence.pool for term in hit.matched_terms}
    values = {
        "best_overlap": max(_share(terms, one) for one in matched),
        "pool_overlap": _share(terms, everywhere),
        "agreement": float(any(h.vector.rank == h.lexical.rank == 1 for h in evidence.hits)),
        "is_question": float(bool(_QUESTION.search(evidence.query))),
    }
    if similar:
        values["best_similarity"] = max(similar)
    shares_words = _shares_language(evidence, values["pool_overlap"])
    if similar:
        return AnswerabilityFeatures("both" if shares_words else "meaning", values)
    return AnswerabilityFeatures("words" if shares_words else "", values)


def judge_answerability(
    evidence: SearchEvidence, missing: Sequence[MissingTerm] = ()
) -> Answerability | None:
    """Return whether the hits answer the question; None where nothing can be told.

    That is a question in another language than the hits, which have no calibrated similarity.
    Without one nothing is ``off_topic``: a question in other words shares none either. What is
    ``missing`` makes the best verdict doubtful.
    """
    if not evidence.hits:
        return Answerability(0.0, "off_topic", tuple(missing))
    found = answerability_features(evidence)
    if not found.case:
        return Answerability(0.0, "doubtful", tuple(missing)) if missing else None
    answerable, on_topic = (_Head.of(found.case, name) for name in ("answerable", "on_topic"))
    probability = answerable.probability(found)
    verdict: AnswerabilityVerdict = "answerable"
    if missing or probability < answerable.threshold:
        verdict = "doubtful"
    if found.case != "words" and on_topic.probability(found) < on_topic.threshold:
        verdict = "off_topic"
    return Answerability(round(probability, 3), verdict, tuple(missing))


@dataclass(frozen=True, slots=True)
class _Head:
    weights: tuple[float, ...]
    bias: float
    threshold: float

    @classmethod
    def of(cls, case: str, name: str) -> _Head:
        head = read_weights()[case][name]
        return cls(tuple(head["weights"]), head["bias"], head["threshold"])

    def probability(self, found: AnswerabilityFeatures) -> float:
        """Return the logistic function of the weighted features."""
        names = FEATURES[found.case]
        x = self.bias + sum(
            weight * found.values[name] for weight, name in zip(self.weights, names, strict=True)
        )
        return 1 / (1 + math.exp(-x))


@lru_cache(maxsize=1)
def read_weights() -> dict[str, Any]:
    """Return the weights of both heads in each case, read once a process."""
    found: dict[str, Any] = json.loads(WEIGHTS.read_text(encoding="utf-8"))["cases"]
    return found


def _share(terms: dict[str, float], held: set[str]) -> float:
    whole = sum(terms.values())
    return sum(weight for term, weight in terms.items() if term in held) / whole if whole else 0.0


def _shares_language(evidence: SearchEvidence, overlap: float) -> bool:
    """Return whether question and best hits are in one language, as far as can be told."""
    asked = is_han(evidence.query)
    best = [evidence.hits[0], _most_similar(evidence)]
    if any(is_han(hit.text[:_SEEN]) != asked for hit in best):
        return False
    if asked or overlap >= _SHARED:
        return True
    texts = [evidence.query, *(hit.text[:_SEEN] for hit in best)]
    return all(_ENGLISH.search(text) for text in texts)


def _most_similar(evidence: SearchEvidence) -> Hit:
    return max(evidence.hits, key=lambda hit: hit.vector.score or 0.0)
