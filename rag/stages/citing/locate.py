"""Quote location: the span of a folded quote in a folded text, and the edit distance to it.

A span that begins or ends inside a word or number, or right behind a negation, is cut; so is most
of a sentence that breaks off within a clause, and clauses without the condition, exception or
negation that goes with them: what counts is the least complete text that it belongs to.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from rag.stages.text.normalize import NormalizedText, normalize_quote
from rag.stages.text.sentences import sentence_spans

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


_NEGATION = re.compile(
    r"(?:[不未没沒無无非勿毋]"
    r"|(?:\b(?:[Nn]ot|[Nn]ever|no|[Cc]annot|[Ww]ithout)|n['’]t)[ \t]*\n?)$"
)
_NUMBER_BEFORE = re.compile(r"(?:\d[.,:/]|[-−‐±]|\d\s?[–~～至到]\s?)$")
_NUMBER_AFTER = re.compile(r"[.,:/]\d|\s?[-−–~～至到]\s?\d|\s?[%‰万亿千百十]")
# Of its sentence a quote of this share passes for the whole; a shorter one is a phrase. Measured on
# the answers that people marked in XQuAD: of 100 phrases 99 are shorter. Hardly any long one begins
# where its sentence does.
_SHARE_FROM_START, _SHARE_OTHERWISE = 0.5, 0.65
_SHARE_BEFORE_CONDITION = 0.4
_CLAUSES_SHARE = 0.3
_AROUND = 300
_CLAUSE = frozenset("，、；：,;:。！？.!?…—–|\n\r\f\t")
_OPENERS, _CLOSERS = "（(［[【「『“‘《〈", "）)］】]」』”’》〉"
# Words that may be left off where a sentence begins: they join it to the one before.
_OPENINGS = re.compile(
    r"(?:the|an?|and|but|so|that|then|also|yes|no|但是?|而且?|并且?|且|因此|所以|其中|另外|此外|同时|即|则)\s*",
    re.I,
)
_BULLET = re.compile(r"(?:[-*•●·■#>|]+|[(（]?(?:\d{1,3}|[一二三四五六七八九十]{1,3})[.)、）．])\s*")
# What turns what a quote says: before or behind it in the same sentence,
_CONDITION = re.compile(
    r"\b(?:if|unless|except|excluding|provided|only)\b"
    r"|如果|若(?!干)|假如|倘|除非|除了|除外|以外|之外|只有|仅|只(?=要|限|能)|前提",
    re.I,
)
# only behind it,
_CONTRAST = re.compile(
    r"\b(?:but|however|although|though|whereas|until)\b|但|然而|不过|虽然|尽管|却|直到", re.I
)
_DENIAL = re.compile(
    r"\b(?:not?|never|without|cannot|neither|nor|none|false|wrong)\b|n['’]t\b"
    r"|[不没沒未無无非勿毋]|否则|错",
    re.I,
)
# and where the clause goes on with it.
_GOES_ON = re.compile(
    r"\s*(?:if|unless|until|except|only|when|while|where|provided|without|before|after|but|not)\b",
    re.I,
)
_SEMICOLON = re.compile("[；;]")


def expand_span(text: str, start: int, end: int, *, is_strict: bool = False) -> tuple[int, int]:
    """Return the span that ``text[start:end]`` must have to say what the text says.

    It is the same one where nothing is cut. With ``is_strict`` only whole sentences are.
    """
    whole = expand_to_words(text, start, end)
    return _complete_clauses(text, *whole, is_strict)


def expand_to_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span with the words, numbers and negations whole that it cuts."""
    first, last = max(0, start - _REACH), min(len(text), end + _REACH)
    while start > first and (missing := _missing_before(text, start)):
        start = max(first, start - missing)
    while end < last and (missing := _missing_after(text, end)):
        end = min(last, end + missing)
    return start, end


def _missing_before(text: str, start: int) -> int:
    before = unicodedata.normalize("NFKC", text[max(0, start - _REACH) : start])
    first = unicodedata.normalize("NFKC", text[start])[:1]
    if not before or not first:
        return 0
    if _in_word(first) and _in_word(before[-1]):
        return 1
    if _in_word(first) and _is_hyphened(before[-1], before[-2:-1], first):
        return 2
    if first in ".,:/" and before[-1].isdigit() and text[start + 1 : start + 2].isdigit():
        return 1
    match = _NUMBER_BEFORE.search(before) if first.isdigit() else None
    match = match or _NEGATION.search(before)
    return len(match[0]) if match else 0


def _missing_after(text: str, end: int) -> int:
    after = unicodedata.normalize("NFKC", text[end : end + _REACH])
    last = unicodedata.normalize("NFKC", text[end - 1])[-1:]
    if not after or not last:
        return 0
    if _in_word(last) and _in_word(after[0]):
        return 1
    if _in_word(last) and _is_hyphened(after[0], last, after[1:2]):
        return 2
    if last == "n" and after[:2].lower() in ("'t", "’t"):
        return 2
    match = _NUMBER_AFTER.match(after) if last.isdigit() else None
    return len(match[0]) if match else 0


def _in_word(character: str) -> bool:
    # Scripts without spaces between words have no words that one sees to be cut.
    return character.isalnum() and (character < "\u0e00" or "\u10a0" <= character < "\u1780")


def _is_hyphened(sign: str, before: str, after: str) -> bool:
    return sign in "-‐‑" and before.isalpha() and after.isalpha()


def _complete_clauses(text: str, start: int, end: int, is_strict: bool) -> tuple[int, int]:
    low = max(0, start - _AROUND)
    spans = [(low + a, low + b) for a, b in sentence_spans(text[low : end + _AROUND])]
    first, _ = next(((a, b) for a, b in spans if a <= start < b), (start, end))
    last = next(((a, b) for a, b in spans if a < end <= b), (start, end))
    if is_strict:
        begin = first if _says_something(text[first:start], is_strict=True) else start
        return begin, last[1] if _has_words(text[end : last[1]]) else end
    size = end - start
    stop = next((b for a, b in spans if a <= start < b), end)
    begin, finish = _clause_start(text, first, start), _clause_end(text, start, end, last[1])
    if (begin, finish) == (start, end):
        if size < _CLAUSES_SHARE * (last[1] - first):
            return start, end
        return _turned(text, (first, start), (end, last[1]))
    share = _SHARE_FROM_START if begin == start else _SHARE_OTHERWISE
    if begin == start and _GOES_ON.match(text, end):
        share = _SHARE_BEFORE_CONDITION
    return (
        begin if size >= _SHARE_OTHERWISE * (stop - first) else start,
        finish if size >= share * (last[1] - last[0]) else end,
    )


def _clause_start(text: str, low: int, start: int) -> int:
    at = start
    while at > low and text[at - 1] not in _CLAUSE:
        at -= 1
    left_off = text[at:start]
    is_quoted = left_off.rstrip()[-1:] in tuple(_OPENERS)
    return start if is_quoted or not _says_something(left_off) else start - len(left_off.lstrip())


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


def _turned(text: str, before: tuple[int, int], after: tuple[int, int]) -> tuple[int, int]:
    """Return the span of whole clauses with what turns them in the rest of their sentence."""
    start, end = before[1], after[0]
    # What a semicolon parts stands for itself.
    ahead = _SEMICOLON.split(text[slice(*before)])[-1]
    rest = _SEMICOLON.split(text[slice(*after)])[0]
    if any(turn.search(rest) for turn in (_CONDITION, _CONTRAST, _DENIAL)):
        end += len(rest.rstrip())
    if _CONDITION.search(ahead):
        start -= len(ahead.lstrip())
    return start, end


def _says_something(left_off: str, *, is_strict: bool = False) -> bool:
    """Return whether what a quote left off in front is more than a bullet or a joining word."""
    match = _BULLET.match(left_off.lstrip())
    bare = left_off.lstrip()[match.end() if match else 0 :]
    return _has_words(bare) and (is_strict or not _OPENINGS.fullmatch(bare))


def _has_words(text: str) -> bool:
    return any(character.isalnum() for character in text)
