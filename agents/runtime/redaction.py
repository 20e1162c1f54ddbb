"""Redaction rule: what a text that a model wrote loses with passages that are gone or hidden.

A sentence stays where its verdict names a passage that may still be read; any other may rest on
what is gone. What claims nothing (a greeting, a heading) stays unless it has words that only lost
passages have. A text without verdicts goes whole: nobody knows what it rests on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rag.stages.text.terms import content_terms

# In place of what an answer said from a passage.
GONE = "[…]"
_MARK = re.compile(r"\[\d{1,4}\]")
_PART = re.compile(r"[^\n.!?。！？]*[\n.!?。！？]*")
_HELD = ("cited", "attributed")


class LostWords:
    """The terms that lost passages have and nothing that may still be read has."""

    def __init__(self, lost: Iterable[str], kept: Iterable[str]) -> None:
        self._terms = _terms(lost) - _terms(kept)

    def are_in(self, text: str) -> bool:
        """Return whether a text has any of them."""
        return bool(self._terms) and not self._terms.isdisjoint(_terms([text]))

    def without(self, text: str) -> str:
        """Return a text without its sentences that have any."""
        if not self.are_in(text):
            return text
        return "".join(self._part(one) for one in _PART.findall(text))

    def _part(self, text: str) -> str:
        bare = text.strip()
        return text.replace(bare, GONE) if bare and self.are_in(bare) else text


def _terms(texts: Iterable[str]) -> set[str]:
    return {term for text in texts for term in content_terms(text)}


def without_statements(
    text: str,
    statements: Sequence[Mapping[str, Any]],
    citations: Sequence[Mapping[str, Any]],
    kept_ids: Collection[Any],
    words: LostWords,
) -> tuple[str, list[dict[str, Any]]]:
    """Return an answer without the statements that rest on what is gone, and its statements anew.

    ``citations`` are those that may still be read, ``kept_ids`` such documents. What no source was
    found for may rest on what is gone as well, and so may the result of a tool.
    """
    numbers = {
        one.get("number")
        for one in citations
        if one.get("chunk_id") is not None or one.get("doc_id") in kept_ids
    }
    kept, out, at = [], "", 0
    for one in statements:
        held_by = numbers.issuperset(one["citations"]) if one["citations"] else None
        is_kept = one["doc_id"] in kept_ids if held_by is None else held_by
        rests_on_it = one["verdict"] not in _HELD or not is_kept
        out += words.without(text[at : one["start"]])
        said, start = text[one["start"] : one["end"]], len(out)
        out += without_text(said) if rests_on_it else said
        kept.append({**one, "start": start, "end": len(out)})
        at = one["end"]
    return out + words.without(text[at:]), kept


def without_text(text: str) -> str:
    """Return what is left of a text that goes as a whole: the marks of its citations."""
    return "".join([GONE, *_MARK.findall(text)]) if text.strip() else text
