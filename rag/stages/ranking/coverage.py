"""Coverage check: whether the hits of one leg hold what the query asks, else why not."""

from __future__ import annotations

from collections.abc import Sequence

from rag.core.analysis import QueryAnalysis
from rag.core.hits import Hit
from rag.stages.text.normalize import normalize_quote
from rag.stages.text.terms import index_terms, is_han, query_terms

# Which part of the query's content words the first hit must hold for one leg to be believed.
# Measured on XQuAD: with less, both legs together find the answer more often.
MIN_WORDS = {"keyword": 0.75, "semantic": 0.6}
_EXACT = frozenset(("identifier", "quote", "title"))


def find_coverage_gap(mode: str, analysis: QueryAnalysis, hits: Sequence[Hit]) -> str:
    """Return why a search by one leg is not enough, an empty text where it is.

    ``nothing_found``. ``few_words``: the first hit holds too few of the query's content words,
    so words and meaning may point to different places; by meaning, a hit in another script cannot
    hold them and is believed. ``missing_name``: no hit by meaning holds the code, quote or title
    that the query names.
    """
    if mode not in MIN_WORDS:
        return ""
    if not hits:
        return "nothing_found"
    names = [
        normalize_quote(entity.value).text for entity in analysis.entities if entity.type in _EXACT
    ]
    if names and mode == "semantic":
        texts = [normalize_quote(hit.text).text for hit in hits]
        if not any(name in text for name in names for text in texts):
            return "missing_name"
    asked = " ".join(analysis.keywords)
    is_foreign = mode == "semantic" and is_han(asked) != is_han(hits[0].text)
    is_vague = not is_foreign and _share_of_words(asked, hits[0].text) < MIN_WORDS[mode]
    return "few_words" if is_vague else ""


def _share_of_words(asked: str, text: str) -> float:
    weights, held = query_terms(asked), index_terms(text)
    whole = sum(weights.values())
    found = sum(weight for term, weight in weights.items() if term in held)
    return found / whole if whole else 1.0
