"""OCR values: the lines that an engine reads, and the words of a scanned page with their boxes.

Boxes are in points of the page as it is shown, from its top left corner, as they would lie if the
page had been put straight on the scanner: ``PageWords.on_page`` turns them back by its angle.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

# What rag.services.reindex compares: whatever changes the words changes it.
OCR_VERSION = "rapidocr/3.10.0"
Corner = tuple[float, float]
# Lines that overlap on a scan came at 0.79 to 0.83, clean ones at 0.88 and more.
_UNSURE, _MANY_LETTERS = 0.85, 4


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line as it was recognized: its corners in pixels, from its top left one clockwise.

    ``places`` are the middles of its letters without blanks, in shares of its length.
    """

    text: str
    corners: tuple[Corner, Corner, Corner, Corner]
    confidence: float
    places: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ScannedWord:
    """A word with its box; ``turn`` counts quarter turns to the left, ``confidence`` is 0 to 1."""

    text: str
    left: float
    top: float
    right: float
    bottom: float
    confidence: float
    turn: int = 0


@dataclass(frozen=True, slots=True)
class PageWords:
    """The recognized words of one page; ``angle`` is by how much it lies askew, in radians.

    ``has_failed``: the page could not be read within the limits and has none.
    """

    number: int
    width: float
    height: float
    angle: float = 0.0
    words: tuple[ScannedWord, ...] = ()
    has_failed: bool = False

    @property
    def text(self) -> str:
        """Return its words, parted by blanks."""
        return " ".join(word.text for word in self.words)

    @property
    def unsure_words(self) -> tuple[str, ...]:
        """Return the words that were hardly recognized, as where something is printed over them."""
        return tuple(
            word.text
            for word in self.words
            if word.confidence < _UNSURE and len(word.text) >= _MANY_LETTERS
        )

    @property
    def confidence(self) -> float:
        """Return the mean over its letters, 1 for a page without any."""
        n_letters = sum(len(word.text) for word in self.words)
        total = sum(word.confidence * len(word.text) for word in self.words)
        return total / n_letters if n_letters else 1.0

    def on_page(self, left: float, top: float, right: float, bottom: float) -> tuple[float, ...]:
        """Return left, top, right and bottom of a box as it lies on the page."""
        cos, sin = math.cos(self.angle), math.sin(self.angle)
        x0, y0 = self.width / 2, self.height / 2
        corners = [(x - x0, y - y0) for x in (left, right) for y in (top, bottom)]
        xs = sorted(x0 + x * cos - y * sin for x, y in corners)
        ys = sorted(y0 + x * sin + y * cos for x, y in corners)
        return xs[0], ys[0], xs[-1], ys[-1]

    def to_json(self) -> str:
        """Return a compact form."""
        words = [
            [word.text, *(round(side, 1) for side in _box(word)), word.confidence, word.turn]
            for word in self.words
        ]
        facts = [self.number, self.width, self.height, self.angle, self.has_failed]
        return json.dumps([facts, words], ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, stored: str) -> Self:
        """Return the page that ``to_json`` was made from."""
        facts, words = json.loads(stored)
        number, width, height, angle, has_failed = facts
        kept = tuple(ScannedWord(*word) for word in words)
        return cls(number, width, height, angle, kept, has_failed)


def _box(word: ScannedWord) -> tuple[float, float, float, float]:
    return word.left, word.top, word.right, word.bottom


def part_of_word(word: ScannedWord, start: int, end: int) -> tuple[float, float, float, float]:
    """Return the box of the letters ``start`` to ``end`` of a word."""
    widths = [_width(letter) for letter in word.text]
    total = sum(widths) or 1.0
    low, high = sum(widths[:start]) / total, sum(widths[:end]) / total
    if word.turn % 2 == 0:
        low, high = (1 - high, 1 - low) if word.turn == 2 else (low, high)
        size = word.right - word.left
        return word.left + low * size, word.top, word.left + high * size, word.bottom
    # To the left a line runs up the page, to the right down.
    low, high = (1 - high, 1 - low) if word.turn == 1 else (low, high)
    size = word.bottom - word.top
    return word.left, word.top + low * size, word.right, word.top + high * size


def _width(letter: str) -> float:
    return 1.0 if letter > "\u2e7f" else 0.55


def mean_angle(lines: Sequence[TextLine]) -> float:
    """Return by how much most of some lines lie askew, in radians; the longer count more."""
    askew: list[tuple[float, float]] = []
    for line in lines:
        (x0, y0), (x1, y1), *_ = line.corners
        askew.append((math.atan2(y1 - y0, x1 - x0), math.hypot(x1 - x0, y1 - y0)))
    half = sum(length for _, length in askew) / 2
    for angle, length in sorted(askew):
        half -= length
        if half <= 0:
            return angle
    return 0.0
