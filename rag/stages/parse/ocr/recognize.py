"""Recognition of one page: its picture in tiles to an engine, lines to words with boxes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag.core.ocr.recognizers import OcrEngine
from rag.core.ocr.scans import PageWords, ScannedWord, TextLine, mean_angle
from rag.stages.parse.ocr.reading_order import reading_order

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Pixels: a side of a tile, and by how much neighbours overlap, which is more than a line's height.
TILE, OVERLAP = 2400, 160
_Lines = list[TextLine]


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A page as pixels (BGR), with its size in points."""

    number: int
    pixels: NDArray[np.uint8]
    width: float
    height: float


def recognize_page(picture: PagePicture, engine: OcrEngine) -> PageWords:
    """Return the page's words, whichever way it was put on the scanner."""
    high, wide = picture.pixels.shape[:2]
    scale = picture.width / wide
    by_turn: dict[int, _Lines] = {}
    for left, top, right, bottom in tiles(wide, high):
        tile = picture.pixels[top:bottom, left:right]
        lines, turn = engine.read_lines(tile)
        for line in lines:
            corners = [_turned(x, y, turn, right - left, bottom - top) for x, y in line.corners]
            x, y = sum(x for x, _ in corners) / 4, sum(y for _, y in corners) / 4
            if _is_own(x, left > 0, right < wide, right - left) and (
                _is_own(y, top > 0, bottom < high, bottom - top)
            ):
                moved = tuple(((left + x) * scale, (top + y) * scale) for x, y in corners)
                held = TextLine(line.text, moved, line.confidence, line.places)  # type: ignore[arg-type]
                by_turn.setdefault(turn, []).append(held)
    if not by_turn:
        return PageWords(picture.number, picture.width, picture.height)
    angle = _askew(by_turn)
    page = PageWords(picture.number, picture.width, picture.height, angle)
    words = [w for turn, held in by_turn.items() for w in _words(held, turn, page)]
    in_order = tuple(reading_order(words))
    return PageWords(picture.number, picture.width, picture.height, angle, in_order)


def tiles(width: int, height: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield left, top, right and bottom of overlapping tiles that cover a picture."""
    for top, bottom in _stretches(height):
        for left, right in _stretches(width):
            yield left, top, right, bottom


def _stretches(length: int) -> Iterator[tuple[int, int]]:
    n_tiles = max(1, math.ceil((length - OVERLAP) / (TILE - OVERLAP)))
    step = (length - OVERLAP) / n_tiles
    for number in range(n_tiles):
        yield round(number * step), min(length, round((number + 1) * step) + OVERLAP)


def _is_own(at: float, has_before: bool, has_after: bool, length: int) -> bool:
    """Return whether a line's middle lies in the half of an overlap that belongs to this tile."""
    return (at >= OVERLAP / 2 or not has_before) and (at < length - OVERLAP / 2 or not has_after)


def _turned(x: float, y: float, turn: int, width: int, height: int) -> tuple[float, float]:
    """Return a point of an upright picture in the one that is turned."""
    if turn == 1:
        return y, height - x
    if turn == 2:
        return width - x, height - y
    return (width - y, x) if turn == 3 else (x, y)


def _askew(by_turn: dict[int, _Lines]) -> float:
    """Return the angle of the lines that are most, less their quarter turns."""
    turn, lines = max(by_turn.items(), key=lambda item: sum(len(line.text) for line in item[1]))
    angle = mean_angle(lines) + turn * math.pi / 2
    angle = (angle + math.pi / 4) % (math.pi / 2) - math.pi / 4
    # What is further askew was not put on a scanner; its boxes are as they lie.
    return angle if abs(angle) < math.radians(8) else 0.0


def _words(lines: Sequence[TextLine], turn: int, page: PageWords) -> list[ScannedWord]:
    """Return words from top to bottom, with one height for lines that are about as high."""
    level = [(line, *_levelled(line, turn, page)) for line in lines]
    sizes = _alike([bottom - top for _, _, top, _, bottom in level])
    words: list[ScannedWord] = []
    for (line, left, top, right, bottom), size in zip(level, sizes, strict=True):
        middle = (top + bottom) / 2
        box = (left, middle - size / 2, right, middle + size / 2)
        words += [_as_shown(word, turn, page) for word in _line_words(line, box)]
    return words


def _levelled(line: TextLine, turn: int, page: PageWords) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of a line as if the page were straight and upright."""
    straight = PageWords(0, page.width, page.height, -page.angle)
    points = []
    for x, y in line.corners:
        across, down, *_ = straight.on_page(x, y, x, y)
        points.append(_upright(across, down, turn, page))
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = points
    return (x0 + x3) / 2, (y0 + y1) / 2, (x1 + x2) / 2, (y2 + y3) / 2


def _upright(x: float, y: float, turn: int, page: PageWords) -> tuple[float, float]:
    if turn == 1:
        return page.height - y, x
    if turn == 2:
        return page.width - x, page.height - y
    return (y, page.width - x) if turn == 3 else (x, y)


def _as_shown(word: ScannedWord, turn: int, page: PageWords) -> ScannedWord:
    """Return a word of the upright page where it stands on the one that is shown."""
    back = (4 - turn) % 4
    high = turn % 2
    size = PageWords(0, page.height if high else page.width, page.width if high else page.height)
    one = _upright(word.left, word.top, back, size)
    other = _upright(word.right, word.bottom, back, size)
    xs, ys = sorted((one[0], other[0])), sorted((one[1], other[1]))
    return ScannedWord(word.text, xs[0], ys[0], xs[1], ys[1], word.confidence, turn)


def _alike(sizes: Sequence[float]) -> list[float]:
    """Return the sizes with those that differ by chance made one."""
    order = sorted(range(len(sizes)), key=lambda at: sizes[at])
    groups: list[list[int]] = []
    for at in order:
        if groups and sizes[at] <= 1.25 * sizes[groups[-1][0]]:
            groups[-1].append(at)
        else:
            groups.append([at])
    usual = {at: sizes[group[len(group) // 2]] for group in groups for at in group}
    return [usual[at] for at in range(len(sizes))]


def _line_words(line: TextLine, box: tuple[float, float, float, float]) -> Iterator[ScannedWord]:
    """Yield the words of a line; their ends are between their letters and their neighbours'."""
    left, top, right, bottom = box
    letters = [letter for letter in line.text if not letter.isspace()]
    if len(letters) != len(line.places):
        places = [(at + 0.5) / max(1, len(letters)) for at in range(len(letters))]
    else:
        places = list(line.places)
    at = 0
    for text in line.text.split():
        first, last = at, at + len(text) - 1
        at += len(text)
        size = (bottom - top) / max(right - left, 0.1)
        start = left + (right - left) * _edge(places, letters[first], first, -size)
        end = left + (right - left) * _edge(places, letters[last], last, size)
        sure = round(line.confidence, 3)
        yield ScannedWord(text, start, top, max(end, start + 0.1), bottom, sure)


def _edge(places: Sequence[float], letter: str, at: int, size: float) -> float:
    """Return where a letter of a ``size`` ends, to the left where that is below 0.

    All are in shares of the line.
    """
    step = 1 if size > 0 else -1
    end = places[at] + (0.4 if letter > "\u2e7f" else 0.24) * size
    if 0 <= at + step < len(places):
        middle = (places[at] + places[at + step]) / 2
        end = max(end, middle) if step < 0 else min(end, middle)
    return min(1.0, max(0.0, end))
