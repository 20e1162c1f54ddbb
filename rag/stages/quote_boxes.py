"""Quote boxes: where a quote stands among a page's characters, and on a scan."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise

from rag.core.documents import Box, MarkedQuote
from rag.core.ocr.scans import PageWords, ScannedWord, part_of_word
from rag.stages.text.normalize import occurrences

MAX_PLACES, MAX_BOXES = 1000, 200
# Letters around a place that are compared, and the least part of a quote that is marked alone.
_AROUND = 200
_LEAST_PART, _LEAST_SHARE = 8, 0.2
# On a page that lies askew a longer box would reach into the lines beside it.
_SLANT, _AT_ONCE = 0.25, 8


def quote_spans(characters: Iterable[str], marked: MarkedQuote) -> list[tuple[int, int]]:
    """Return index and number of the page's characters that say each part of the quote.

    Only letters and digits count: lines, hyphens and signs are not what they were after reading.
    """
    borders = [0, *(at for span in marked.omitted for at in span), len(marked.quote)]
    parts = [_folded(marked.quote[start:end]) for start, end in pairwise(borders)]
    letters: list[str] = []
    places: list[int] = []
    for index, character in enumerate(characters):
        for letter in _letters(character):
            letters.append(letter)
            places.append(index)
    first, start, end = _place("".join(letters), "".join(parts), marked)
    found = []
    done = 0
    for number, part in enumerate(parts):
        low, high = max(done, start), min(done + len(part), end)
        done += len(part)
        # Every second part is left out.
        if low < high and number % 2 == 0:
            begin, last = places[first + low - start], places[first + high - start - 1]
            found.append((begin, last - begin + 1))
    return found


def _place(page: str, wanted: str, marked: MarkedQuote) -> tuple[int, int, int]:
    """Return where on the page ``wanted[start:end]`` stands, with start and end.

    Of several places it is the one with the same words around it, else the one as far down. What
    goes on over the page, or began before it, is found by its part on this page.
    """
    size = len(wanted)
    start, end = 0, size
    if not wanted:
        return 0, 0, 0
    if wanted not in page:
        n_first = _longest(size, lambda n: wanted[:n] in page)
        n_last = _longest(size, lambda n: wanted[size - n :] in page)
        start, end = (0, n_first) if n_first >= n_last else (size - n_last, size)
        if end - start < max(_LEAST_PART, _LEAST_SHARE * size):
            return 0, 0, 0
    before, after = map(_folded, marked.around)
    places = list(islice(occurrences(page, wanted[start:end]), MAX_PLACES))

    def likeness(at: int) -> tuple[int, int]:
        left = _shared(page[max(0, at - _AROUND) : at][::-1], before[::-1])
        right = _shared(page[at + end - start : at + end - start + _AROUND], after)
        return left + right, -abs(at - len(before))

    return max(places, key=likeness), start, end


def _longest(most: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number that holds, if all smaller ones do."""
    low = 0
    while low < most:
        middle = (low + most + 1) // 2
        low, most = (middle, most) if holds(middle) else (low, middle - 1)
    return low


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts share at their beginning."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _folded(text: str) -> str:
    return "".join(map(_letters, text))


def _letters(character: str) -> str:
    folded = unicodedata.normalize("NFKC", character).casefold()
    return "".join(letter for letter in folded if letter.isalnum())


def boxes_on_scan(page: PageWords, marked: MarkedQuote) -> tuple[Box, ...]:
    """Return where a quote stands on a page that OCR has read; empty where it is not found."""
    text = page.text
    boxes: list[Box] = []
    for start, length in quote_spans(text, marked):
        for group in _beside(list(_parts(page.words, start, start + length)), page.angle):
            sides = (
                min(box[0] for box in group),
                min(box[1] for box in group),
                max(box[2] for box in group),
                max(box[3] for box in group),
            )
            boxes.append(as_share(page.on_page(*sides), page.width, page.height))
    return tuple(boxes[:MAX_BOXES])


def as_share(box: Sequence[float], width: float, height: float) -> Box:
    """Return left, top, width and height in shares of a page for left, top, right and bottom."""
    left, top, right, bottom = box
    sides = (left / width, top / height, (right - left) / width, (bottom - top) / height)
    return round(sides[0], 5), round(sides[1], 5), round(sides[2], 5), round(sides[3], 5)


def _parts(
    words: Sequence[ScannedWord], start: int, end: int
) -> Iterator[tuple[float, float, float, float]]:
    """Yield boxes of the characters ``start`` to ``end`` of words that blanks part."""
    at = 0
    for word in words:
        size = len(word.text)
        low, high = max(0, start - at), min(size, end - at)
        for first in range(low, high, _AT_ONCE):
            yield part_of_word(word, first, min(high, first + _AT_ONCE))
        at += size + 1


def _beside(
    boxes: Sequence[tuple[float, float, float, float]], angle: float
) -> list[list[tuple[float, float, float, float]]]:
    """Return the boxes in groups that are one stretch of a line each."""
    groups: list[list[tuple[float, float, float, float]]] = []
    for box in boxes:
        last, first = (groups[-1][-1], groups[-1][0]) if groups else (None, box)
        size = min(box[3] - box[1], box[2] - box[0])
        reach = max(box[2] - first[0], box[3] - first[1])
        if abs(angle) * reach > _SLANT * size:
            last = None
        is_across = last and abs(last[1] - box[1]) + abs(last[3] - box[3]) < 0.1 * size
        is_along = last and abs(last[0] - box[0]) + abs(last[2] - box[2]) < 0.1 * size
        if (is_across and last and box[0] - last[2] < 1.5 * (box[3] - box[1])) or (
            is_along and last and box[1] - last[3] < 1.5 * (box[2] - box[0])
        ):
            groups[-1].append(box)
        else:
            groups.append([box])
    return groups
