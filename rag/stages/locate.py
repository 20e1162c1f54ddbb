"""A quote in a text. In: both, folded. Out: where it stands, and how far off the words are.

A quote that begins or ends inside a word or number, or right behind a negation, is not that text;
nor is most of a sentence that breaks off within a clause, for the rest may turn what it says.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from rag.stages.fold import Folded, fold_quote
from rag.stages.sentences import sentence_spans

# Below this likeness in percent the closest span is no altered quote but another text.
LIKENESS = 60.0
_REACH = 12
_MIN_QUOTE = 2
_MAX_PLACES = 100
_NEGATION = re.compile(
    r"(?:[不未没沒無无非勿毋]"
    r"|(?:\b(?:[Nn]ot|[Nn]ever|no|[Cc]annot|[Ww]ithout)|n['’]t)[ \t]*\n?)$"
)
_NUMBER_BEFORE = re.compile(r"(?:\d[.,:/]|[-−‐±]|\d\s?[–~～至到]\s?)$")
# A quote of this share of its sentence passes for the sentence; a shorter one is a phrase.
_SENTENCE_SHARE = 0.7
_AROUND = 600
_CLAUSE = frozenset("，、；：,;:。！？.!?…—–|\n\r\f\t")
_OPENERS, _CLOSERS = "（(［[【「『“‘《〈", "）)］]】」』”’》〉"
# Words that may be left off where a sentence begins: they join it to the one before.
_OPENINGS = re.compile(
    r"(?:the|an?|and|but|so|that|then|also|yes|no|但是?|而且?|并且?|且|因此|所以|其中|另外|此外|同时|即|则)\s*",
    re.I,
)
_NUMBER_AFTER = re.compile(r"[.,:/]\d|\s?[-−–~～至到]\s?\d|\s?[%‰万亿千百十]")


@dataclass(frozen=True, slots=True)
class Place:
    """``original[start:end]`` of a source; ``distance`` 0 when it is the quote."""

    start: int
    end: int
    distance: int


def quoted_words(quote: str) -> str:
    """Return ``quote`` folded as it is looked for; empty when it is too short to prove anything."""
    # Where a quote is cut, its own stop or ellipsis stands for what follows in the source.
    words = fold_quote(quote).text.strip("'.,;:!?")
    return words if len(words) >= _MIN_QUOTE else ""


def locate_quote(quote: str, source: Folded, *, is_exact: bool = False) -> Place | None:
    """Return where the folded ``quote`` stands in ``source``, or None.

    Without ``is_exact`` the closest span counts too, when it is alike by 60 % (normalised indel
    distance of the best window, as in rapidfuzz's partial ratio).
    """
    clipped = None
    at = source.text.find(quote) if quote else -1
    for _ in range(_MAX_PLACES):
        if at < 0:
            break
        span = source.span(at, at + len(quote))
        whole = _clause(source.original, *_whole(source.original, *span))
        if whole == span:
            return Place(*span, 0)
        clipped = clipped or whole
        at = source.text.find(quote, at + 1)
    if is_exact or not quote:
        return None
    near = clipped or _closest(quote, source)
    if near is None:
        return None
    found = fold_quote(source.original[near[0] : near[1]]).text
    return Place(*near, max(1, Levenshtein.distance(quote, found)))


def _closest(quote: str, source: Folded) -> tuple[int, int] | None:
    if not source.text:
        return None
    match = fuzz.partial_ratio_alignment(quote, source.text, score_cutoff=LIKENESS)
    if match is None or match.dest_end <= match.dest_start:
        return None
    start, end = _fitted(quote, source.text, match.dest_start, match.dest_end)
    return _whole(source.original, *source.span(start, end))


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
        found = min(near, key=lambda place: (cost(place), abs(place - at)))
        if cost(found) >= lowest:
            return at
        at, lowest = found, cost(found)


def _whole(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span with the words and numbers complete that it cuts."""
    first, last = max(0, start - _REACH), min(len(text), end + _REACH)
    while start > first and _is_cut_before(text, start):
        start -= 1
    while end < last and _is_cut_after(text, end):
        end += 1
    return start, end


def _is_cut_before(text: str, start: int) -> bool:
    before = unicodedata.normalize("NFKC", text[max(0, start - _REACH) : start])
    first = unicodedata.normalize("NFKC", text[start])[:1]
    if not before or not first:
        return False
    if _in_word(first) and (_in_word(before[-1]) or _is_hyphened(before[-1], before[-2:-1], first)):
        return True
    if first in ".,:/" and before[-1].isdigit() and text[start + 1 : start + 2].isdigit():
        return True
    is_cut = first.isdigit() and _NUMBER_BEFORE.search(before)
    return bool(is_cut or _NEGATION.search(before))


def _is_cut_after(text: str, end: int) -> bool:
    after = unicodedata.normalize("NFKC", text[end : end + _REACH])
    last = unicodedata.normalize("NFKC", text[end - 1])[-1:]
    if not after or not last:
        return False
    if _in_word(last) and (_in_word(after[0]) or _is_hyphened(after[0], last, after[1:2])):
        return True
    if last == "n" and after[:2].lower() in ("'t", "’t"):
        return True
    return last.isdigit() and bool(_NUMBER_AFTER.match(after))


def _in_word(character: str) -> bool:
    # Scripts without spaces between words have no words that one sees to be cut.
    return character.isalnum() and (character < "\u0e00" or "\u10a0" <= character < "\u1780")


def _is_hyphened(sign: str, before: str, after: str) -> bool:
    return sign in "-‐‑" and before.isalpha() and after.isalpha()


def _clause(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span with the clauses complete that it cuts, if it is most of a sentence."""
    low = max(0, start - _AROUND)
    spans = [(low + a, low + b) for a, b in sentence_spans(text[low : end + _AROUND])]
    first = next(((a, b) for a, b in spans if a <= start < b), (start, end))
    last = next(((a, b) for a, b in spans if a < end <= b), (start, end))
    size = end - start
    begin = start
    if size >= _SENTENCE_SHARE * (first[1] - first[0]):
        begin = _clause_start(text, first[0], start)
    if size >= _SENTENCE_SHARE * (last[1] - last[0]):
        end = _clause_end(text, start, end, last[1])
    return begin, end


def _clause_start(text: str, low: int, start: int) -> int:
    at = start
    while at > low and text[at - 1] not in _CLAUSE:
        at -= 1
    left_off = text[at:start]
    is_quoted = left_off.rstrip()[-1:] in tuple(_OPENERS)
    if is_quoted or not _has_words(left_off) or _OPENINGS.fullmatch(left_off.lstrip()):
        return start
    return start - len(left_off.lstrip())


def _clause_end(text: str, start: int, end: int, high: int) -> int:
    at = end
    while at < high and text[at] not in _CLAUSE:
        at += 1
    left_off = text[end:at]
    if text[end - 1] in _CLAUSE:
        return end
    closer = _CLOSERS.find(left_off.lstrip()[:1] or " ")
    is_quoted = closer >= 0 and _OPENERS[closer] not in text[start:end]
    return end if is_quoted or not _has_words(left_off) else at


def _has_words(text: str) -> bool:
    return any(character.isalnum() for character in text)
