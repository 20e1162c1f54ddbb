"""Quote location: the span of a folded quote in a folded text, and the edit distance to it.

A span that begins or ends inside a word or number, or right behind a negation, is cut; so is most
of a sentence that breaks off within a clause, and clauses without the condition, exception or
negation that goes with them: what counts is the least complete text that it belongs to. Where it
has an ellipsis a quote may leave out anything but such turns.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from rag.stages.text.normalize import (
    NormalizedText,
    normalize_quote,
    occurrences,
    to_simplified,
)
from rag.stages.text.sentences import sentence_ends, sentence_spans

# Below this likeness in percent the closest span is no altered quote but another text.
MIN_SIMILARITY = 60.0
_REACH = 12
_MIN_QUOTE = 2
_MAX_PLACES = 100
# As it is folded: "...", "…", "[…]", "(...)".
_ELLIPSIS = re.compile(r"\(\.{3,}\)|\.{3,}")
_ENDS = re.compile(r"\A(?:\(\.{3,}\)|['.,;:!?])+|(?:\(\.{3,}\)|['.,;:!?])+\Z")
_EDGES = "'.,;:!?"


@dataclass(frozen=True, slots=True)
class QuotePlace:
    """``original[start:end]`` of a source; ``distance`` 0 when it is the quote.

    ``omitted`` are the spans of the original between its parts.
    """

    start: int
    end: int
    distance: int
    omitted: tuple[tuple[int, int], ...] = ()


def quoted_words(quote: str) -> tuple[str, ...]:
    """Return ``quote`` folded, as written and without its stop; nothing when it is too short."""
    whole = normalize_quote(quote).text
    # Where a quote is cut, its own stop or ellipsis stands for what follows in the source.
    words = _ENDS.sub("", whole)
    return tuple(dict.fromkeys((whole, words))) if len(words) >= _MIN_QUOTE else ()


def quoted_parts(quote: str) -> tuple[str, ...]:
    """Return what stands between the ellipses of a folded quote; one part where it has none.

    The first or the last part is empty where an ellipsis stands at that end. Nothing when a part
    is too short to be looked for.
    """
    first, *rest = (part.strip(_EDGES) for part in _ELLIPSIS.split(quote))
    inner, last = rest[:-1], rest[-1:]
    parts = (first, *inner, *last)
    is_short = any(len(part) < _MIN_QUOTE for part in inner) or any(
        len(part) == 1 for part in parts
    )
    return () if is_short or not any(parts) else parts


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


def find_abridged(
    parts: Sequence[str], source: NormalizedText, *, is_strict: bool = False
) -> tuple[QuotePlace | None, bool]:
    """Return the first place of ``parts`` in their order, and whether nothing is hidden there.

    What is left out at an ellipsis may not turn what is quoted; with ``is_strict`` only whole
    sentences may be. Of a quote that hides something the place is all that it stretches over.
    """
    words = [part for part in parts if part]
    opens, closes = not parts[0], not parts[-1]
    hiding = None
    # Behind each place of the first part the others stand mostly where they stood before.
    span_of = cache(source.span)
    for spans in _in_order(words, source):
        found = [span_of(*span) for span in spans]
        place = QuotePlace(found[0][0], found[-1][1], 0, tuple(_between(found)))
        if _hides_nothing(source.original, found, (opens, closes), is_strict=is_strict):
            return place, True
        hiding = hiding or place
    return (
        _measured("".join(words), source, (hiding.start, hiding.end)) if hiding else None
    ), False


def _in_order(words: Sequence[str], source: NormalizedText) -> Iterator[list[tuple[int, int]]]:
    """Yield places of all parts, each at the nearest one behind the part before."""
    for n, at in enumerate(occurrences(source.text, words[0])):
        spans = [(at, at + len(words[0]))]
        for part in words[1:]:
            at = source.text.find(part, spans[-1][1])
            if at < 0 or n == _MAX_PLACES:
                return
            spans.append((at, at + len(part)))
        yield spans


def _between(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    return ((left[1], right[0]) for left, right in pairwise(spans))


def _hides_nothing(
    text: str, spans: Sequence[tuple[int, int]], is_marked: tuple[bool, bool], *, is_strict: bool
) -> bool:
    start, end = spans[0][0], spans[-1][1]
    if is_strict:
        return all(expand_span(text, *span, is_strict=True) == span for span in spans)
    if any(expand_to_words(text, *span) != span for span in spans):
        return False
    if any(_hides(text, low, high) for low, high in _between(spans)):
        return False
    # What is left off at the ends is missing where no ellipsis says so, and where it turns them.
    begin, finish = expand_span(text, start, end)
    if (begin < start and not is_marked[0]) or (finish > end and not is_marked[1]):
        return False
    is_whole = expand_span(text, begin, finish) == (begin, finish)
    is_timed = bool(_TIME.search(to_simplified(text[end:finish])))
    return is_whole and not (is_timed or _turns(text[begin:start]) or _turns(text[end:finish]))


def _turns(left_off: str) -> bool:
    plain = to_simplified(left_off)
    return any(turn.search(plain) for turn in (_CONDITION, _CONTRAST, _DENIAL, _HIDDEN))


def _hides(text: str, low: int, high: int) -> bool:
    """Return whether what an ellipsis leaves out turns what follows, or leads into another row."""
    if _are_rows(text, low, high):
        return False
    if _turns(text[low:high]):
        return True
    ends = [end for end in sentence_ends(text, low, min(len(text), high + _REACH)) if end <= high]
    if not ends:
        return bool(_TIME.search(to_simplified(text[low:high])))
    # Behind another sentence only whole clauses say what they say there, and cells of a table none.
    is_cell = any(sign in text[ends[-1] : high] for sign in "|\t")
    return is_cell or _clause_start(text, ends[-1], high) < high


def _are_rows(text: str, low: int, high: int) -> bool:
    """Return whether whole rows of one table are left out: none says anything of another."""
    left_off = text[low:high]
    lines = [line.strip() for line in re.split(r"[\n\f]", left_off)]
    first, last = lines[0], lines[-1]
    is_bounded = len(lines) > 1 and first in ("", "|") and last in ("", "|")
    return is_bounded and all(line[:1] == line[-1:] == "|" for line in lines[1:-1])


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
    r"\b(?:if|unless|except(?:ing|ions?)?|excluding|provided|only|whenever"
    r"|(?:as|so) long as|in case|on condition|subject to|apart from|other than)\b"
    r"|如果|若(?!干)|假如|倘|要是|一旦|除非|除了|除外|以外|之外|例外|只有|仅|只(?=要|限|能)|前提|视.{1,12}而定",
    re.I,
)
# only behind it,
_CONTRAST = re.compile(
    r"\b(?:but|however|although|though|whereas|until|nevertheless|nonetheless|despite|in spite of"
    r"|and yet|otherwise|instead)\b"
    r"|但|然而|不过|虽然|尽管|却|直到|可是|反而|相反|即使|即便",
    re.I,
)
_DENIAL = re.compile(
    r"\b(?:not?|never|without|cannot|neither|nor|none|false|wrong)\b|n['’]t\b"
    r"|[不没沒未無无非勿毋]|否则|错",
    re.I,
)
# between its parts,
_HIDDEN = re.compile(
    r"\b(?:hardly|barely|rarely|seldom|scarcely|few|little|nobody|nothing|fail(?:s|ed|ure|ing)?"
    r"|unable|impossible|unlikely|lack(?:s|ed|ing)?|rather|yet|incorrect|invalid|untrue|doubts?"
    r"|refus(?:e|es|ed)|den(?:y|ies|ied)|forbid(?:s|den)?|prohibit(?:s|ed)?|against|while)\b"
    r"|禁止|严禁|拒绝|避免|难以|缺乏|缺少|停止|很少|否|只",
    re.I,
)
# there too, unless whole sentences are left out: a time, or what governs the words that follow,
_TIME = re.compile(
    r"\bwhen\b|\b(?:before|after|since)\b[^,;:]*\Z"
    r"|(?<!同)时[，,、]|(?<![相应适正])当(?![地时年前天今日代局选中场作初然事做成即晚])|(?:之前|之后|以前|以后)[，,]?\Z",
    re.I,
)
# and where the clause goes on with it.
_GOES_ON = re.compile(
    r"\s*(?:if|unless|until|except|only|when|while|where|provided|without|before|after|but|not)\b",
    re.I,
)
_SEMICOLON = re.compile("[；;]")
# What a short clause, or one before a semicolon, is turned by where it follows at once.
_TURNS_AT_ONCE = re.compile(
    r"[\s，,；;、(（]*(?:(?:and|or)\s+)?(?:but|however|although|though|unless|except|only|if|until|provided"
    r"|whereas|without)\b|[\s，,；;、(（]*[而且]?(?:但|然而|不过|虽然|尽管|却|直到|可是|除非|除了|如果|若(?!干)|只|仅)",
    re.I,
)
_CONDITION_AHEAD = re.compile(
    r"(?:if|unless|except|only|provided|whenever|when)\b|如果|若(?!干)|假如|倘|要是|一旦|除非|除了|只有|只要",
    re.I,
)
# Shorter ones are hardly clauses: in columns, of which a Han character fills two.
_CLAUSE_COLUMNS = 10


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
        is_short = size < _CLAUSES_SHARE * (last[1] - first)
        return _turned(text, (first, start), (end, last[1]), is_short)
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


def _turned(
    text: str, before: tuple[int, int], after: tuple[int, int], is_short: bool
) -> tuple[int, int]:
    """Return the span of whole clauses with what turns them in the rest of their sentence."""
    start, end = before[1], after[0]
    behind = to_simplified(text[slice(*after)])
    # What a semicolon parts stands for itself.
    ahead = _SEMICOLON.split(to_simplified(text[slice(*before)]))[-1]
    rest = _SEMICOLON.split(behind)[0]
    if is_short:
        clause = ahead[_clause_start(ahead, 0, len(ahead.rstrip(" ，,"))) :].lstrip()
        columns = sum(1 + (one > "\u2e7f") for one in text[start:end])
        is_turned, is_conditional = (
            columns >= _CLAUSE_COLUMNS and bool(found)
            for found in (_TURNS_AT_ONCE.match(behind), _CONDITION_AHEAD.match(clause))
        )
    else:
        is_turned = any(turn.search(rest) for turn in (_CONDITION, _CONTRAST, _DENIAL))
        is_turned = is_turned or bool(_TURNS_AT_ONCE.match(behind))
        is_conditional = bool(_CONDITION.search(ahead))
    if is_turned:
        end += len((rest if rest.strip() else behind).rstrip())
    if is_conditional:
        start -= len(ahead.lstrip())
    return start, end


def _says_something(left_off: str, *, is_strict: bool = False) -> bool:
    """Return whether what a quote left off in front is more than a bullet or a joining word."""
    match = _BULLET.match(left_off.lstrip())
    bare = left_off.lstrip()[match.end() if match else 0 :]
    return _has_words(bare) and (is_strict or not _OPENINGS.fullmatch(bare))


def _has_words(text: str) -> bool:
    return any(character.isalnum() for character in text)
