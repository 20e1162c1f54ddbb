"""Quote location: the span of a folded quote in a folded text, and the edit distance to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from rag.stages.citing.expand_span import expand_span, expand_to_words
from rag.stages.text.normalize import NormalizedText, normalize_quote

# Below this likeness in percent the closest span is no altered quote but another text.
MIN_SIMILARITY = 60.0
_REACH = 12
_MIN_QUOTE = 2
_MAX_PLACES = 100


@dataclass(frozen=True, slots=True)
class QuotePlace:
    """``original[start:end]`` of a source; ``distance`` 0 when it is the quote."""

    start: int
    end: int
    distance: int


def quoted_words(quote: str) -> tuple[str, ...]:
    """Return ``quote`` folded, as written and without its stop; nothing when it is too short."""
    whole = normalize_quote(quote).text
    # Where a quote is cut, its own stop or ellipsis stands for what follows in the source.
    words = whole.strip("'.,;:!?")
    return tuple(dict.fromkeys((whole, words))) if len(words) >= _MIN_QUOTE else ()


def find_quote(
    quote: str, source: NormalizedText, *, is_strict: bool = False
) -> tuple[QuotePlace | None, bool]:
    """Return the first place of the folded ``quote``, and whether nothing is cut there.

    ``is_strict`` takes for cut whatever is not whole sentences. Of a quote that is cut everywhere
    the place is what the source says in full.
    """
    clipped = None
    at = source.text.find(quote) if quote else -1
    for _ in range(_MAX_PLACES):
        if at < 0:
            break
        span = source.span(at, at + len(quote))
        whole = expand_span(source.original, *span, is_strict=is_strict)
        if whole == span:
            return QuotePlace(*span, 0), True
        clipped = clipped or whole
        at = source.text.find(quote, at + 1)
    return (_measured(quote, source, clipped) if clipped else None), False


def closest_quote(quote: str, source: NormalizedText) -> QuotePlace | None:
    """Return the closest span when it is alike by 60 %, else None.

    Likeness is the normalised indel distance of the best window, as in rapidfuzz's partial ratio.
    """
    if not quote or not source.text:
        return None
    match = fuzz.partial_ratio_alignment(quote, source.text, score_cutoff=MIN_SIMILARITY)
    if match is None or match.dest_end <= match.dest_start:
        return None
    start, end = _fitted(quote, source.text, match.dest_start, match.dest_end)
    return _measured(quote, source, expand_to_words(source.original, *source.span(start, end)))


def locate_quote(
    quote: str, source: NormalizedText, *, is_exact: bool = False, is_strict: bool = False
) -> QuotePlace | None:
    """Return where the folded ``quote`` stands in ``source``, or None.

    Without ``is_exact`` what it was cut from, or else the closest span, counts too.
    """
    place, is_whole = find_quote(quote, source, is_strict=is_strict)
    if is_whole or (place and not is_exact):
        return place
    return None if is_exact else closest_quote(quote, source)


def _measured(quote: str, source: NormalizedText, span: tuple[int, int]) -> QuotePlace:
    found = normalize_quote(source.original[span[0] : span[1]]).text
    return QuotePlace(*span, max(1, Levenshtein.distance(quote, found)))


def _fitted(quote: str, text: str, start: int, end: int) -> tuple[int, int]:
    """Return the window after moving its end, then its start, to the best place."""

    def from_end(at: int) -> int:
        return Levenshtein.distance(quote, text[start:at])

    def from_start(at: int) -> int:
        return Levenshtein.distance(quote, text[at:end])

    end = _best(from_end, end, start + 1, len(text))
    return _best(from_start, start, 0, end - 1), end


def _best(cost: Callable[[int], int], at: int, low: int, high: int) -> int:
    """Return the cheapest place near ``at``; the search goes on where its edge is the cheapest."""
    lowest = cost(at)
    while True:
        near = range(max(low, at - _REACH), min(high, at + _REACH) + 1)
        least, _, found = min((cost(place), abs(place - at), place) for place in near)
        if least >= lowest:
            return at
        at, lowest = found, least
