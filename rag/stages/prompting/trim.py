"""Truncation of a text to a token budget.

Nothing is cut inside a character or a citation marker; a sentence's end is preferred.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from rag.stages.text.sentences import character_boundary, clause_ends, sentence_ends

# A shorter rest of a source says nothing.
MIN_TOKENS = 12
# What a model or reader must see whole, should a source contain it.
_MARKER = re.compile(
    r"</?cite\b[^<>]{0,4000}>|[\[［【]\s*\d{1,3}(?:\s*[,，、]\s*\d{1,3})*\s*[\]］】]"
)
_JOINERS = "\u200d\ufe0f"


def trim_text(text: str, room: int, count: Callable[[str], int], mark: str) -> str:
    """Return the text if it fits, else its beginning up to a sentence, a clause or a word.

    ``count`` gives a text's tokens; a cut leaves room for ``mark``. No room gives an empty text.
    """
    if room < 1:
        return ""
    if count(text) <= room:
        return text
    room -= count(mark)
    if room < MIN_TOKENS:
        return ""
    spans = [match.span() for match in _MARKER.finditer(text)]
    longest = _longest(text, range(1, len(text)), room, count)
    for ends in (sentence_ends(text), clause_ends(text, 0, len(text))):
        places = [end for end in ends if longest // 2 <= end <= longest]
        end = _between_characters(text, _outside(spans, places[-1])) if places else 0
        if text[:end].strip():
            return text[:end].rstrip()
    end = _outside(spans, character_boundary(text, longest, 0) if longest else 0)
    end = _between_characters(text, end)
    return text[:end].rstrip()


def _longest(text: str, places: range, room: int, count: Callable[[str], int]) -> int:
    """Return the longest beginning within ``room`` tokens, found by halving."""
    low, high = 0, len(places)
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[: places[middle - 1]].rstrip()) <= room:
            low = middle
        else:
            high = middle - 1
    return places[low - 1] if low else 0


def _outside(spans: Sequence[tuple[int, int]], position: int) -> int:
    """Return ``position``, or the start of the marker that it would part."""
    return next((start for start, end in spans if start < position < end), position)


def _between_characters(text: str, position: int) -> int:
    """Return ``position``, or where the character begins that it would part."""
    while 0 < position < len(text) and (
        text[position] in _JOINERS
        or text[position - 1] == "\u200d"
        or unicodedata.category(text[position])[0] == "M"
    ):
        position -= 1
    return position
