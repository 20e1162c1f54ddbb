"""How much of a question a text holds. In: both. Out: a share, 0 to 1."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from rag.stages.analyze import analyze_query
from rag.stages.terms import index_terms, query_terms


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
