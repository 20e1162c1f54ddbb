"""PDF words: the characters of a page with their boxes, as words in the order of its stream.

Boxes are upright whatever way the text is turned: left to right, and down from line to line.
"""

from __future__ import annotations

import ctypes
import math
import re
from ctypes import byref, create_string_buffer
from dataclasses import dataclass

import pypdfium2 as pdfium
from pypdfium2 import raw

# Beyond that a page is no page to look at: its text is taken as the stream has it.
MAX_GLYPHS = 200_000
# Of the height of a character: a wider gap parts words, a higher step parts lines.
_GAP, _STEP, _TOUCH = 0.5, 0.45, 0.1
_RAISED_SIZE = 0.86
_DIAGONAL = 0.12
DIAGONAL = -1
_HAIR = 0.05
_TOKEN = re.compile(r"\S+")
# Letters and signs alone hold no powers and no marks of notes.
_LETTERS = re.compile(
    "[^\\W\\d_.,;:!?()\"'“”‘’。，、；：？！（）《》\x02-]{2}(?:[^\\W\\d_]|[.,;:!?()\"'“”‘’。，、；：？！（）《》\x02-])+"
)


@dataclass(slots=True)
class Word:
    """Characters ``first`` to ``last`` of a page; ``turn`` counts quarter turns to the left.

    ``is_apart``: white space stands before it; ``has_blank``: the file holds a blank there, while
    others were guessed from a gap. ``is_raised``: smaller and higher than what it follows, as a
    power or the mark of a note.
    """

    text: str
    left: float
    top: float
    right: float
    bottom: float
    turn: int
    first: int
    last: int
    is_apart: bool = True
    has_blank: bool = False
    is_raised: bool = False

    @property
    def size(self) -> float:
        """Return the height of its characters."""
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        """Return how far down its middle lies."""
        return (self.top + self.bottom) / 2


def read_page_words(page: pdfium.PdfPage, text_page: pdfium.PdfTextPage) -> list[Word]:
    """Return the words of a page that lie within its crop box."""
    glyphs = _Glyphs(page, text_page)
    words: list[Word] = []
    last: Word | None = None
    for token in _TOKEN.finditer(glyphs.text):
        first, end = token.span()
        word = glyphs.whole_word(first, end)
        if word is not None and (last is None or not glyphs.touches(last, first, word)):
            word.has_blank = first > 0 and not glyphs.is_guessed(first - 1)
            words.append(word)
            last = word
            continue
        is_apart = True
        for index in range(first, end):
            box = glyphs.box(index)
            if box is None:
                continue
            has_blank = is_apart and index > 0 and not glyphs.is_guessed(index - 1)
            if is_apart and last is not None:
                # pdfium guesses where words part, and may be wrong where they touch.
                is_apart = has_blank or not _touches(last, box)
            character = glyphs.text[index]
            if last is not None and not is_apart and _goes_on(last, box):
                last.text += character
                last.last = index
                _stretch(last, box)
                continue
            word = glyphs.word(character, index, index, box)
            word.is_apart, word.has_blank = is_apart, has_blank
            if last is not None and not is_apart and word.turn == last.turn:
                word.is_raised = _is_raised(last, word)
                word.is_apart = not word.is_raised and not _is_same_word(last, word)
            words.append(word)
            last, is_apart = word, False
    return words


_Box = tuple[float, float, float, float]


class _Glyphs:
    """The characters of a page, with their boxes as left, bottom, right and top."""

    def __init__(self, page: pdfium.PdfPage, text_page: pdfium.PdfTextPage) -> None:
        self._handle = text_page.raw
        self._place = raw.FS_RECTF()
        self._out = byref(self._place)
        self._crop = page.get_cropbox()
        self.text = _characters(text_page)

    def box(self, index: int) -> _Box | None:
        """Return the box of a character; None where it is a printer's mark."""
        if not raw.FPDFText_GetLooseCharBox(self._handle, index, self._out):
            return None
        place = self._place
        box = (place.left, place.bottom, place.right, place.top)
        left, bottom, right, top = self._crop
        is_shown = left <= (box[0] + box[2]) / 2 <= right and (
            bottom <= (box[1] + box[3]) / 2 <= top
        )
        return box if is_shown else None

    def whole_word(self, first: int, end: int) -> Word | None:
        """Return letters between blanks as a word by the boxes of its ends, if these are level."""
        text = self.text[first:end]
        if not _LETTERS.fullmatch(text):
            return None
        start, stop = self.box(first), self.box(end - 1)
        if start is None or stop is None:
            return None
        word = self.word(text, first, end - 1, start)
        if word.turn == DIAGONAL or not _is_level(word, turned(word.turn, stop), len(text)):
            return None
        _stretch(word, stop)
        return word

    def word(self, text: str, first: int, last: int, box: _Box) -> Word:
        """Return a new word; its way is that of its first character."""
        angle = raw.FPDFText_GetCharAngle(self._handle, first) / (math.pi / 2)
        quarters = round(angle)
        turn = -quarters % 4 if abs(angle - quarters) < _DIAGONAL else DIAGONAL
        return Word(text, *turned(turn, box), turn, first, last)

    def is_guessed(self, index: int) -> bool:
        """Return whether a blank is none of the file's own."""
        return self.text[index] in "\r\n" or raw.FPDFText_IsGenerated(self._handle, index) == 1

    def touches(self, last: Word, first: int, word: Word) -> bool:
        """Return whether a word stands right behind another, parted by a guess at most."""
        if word.turn != last.turn or not _is_behind(last, word.left, word.top, word.bottom):
            return False
        return first == 0 or self.is_guessed(first - 1)


def _characters(text_page: pdfium.PdfTextPage) -> str:
    """Return one character for each index; what is none is a blank."""
    n_all = text_page.count_chars()
    buffer = create_string_buffer(2 * n_all + 2)
    n_written = raw.FPDFText_GetText(
        text_page.raw, 0, n_all, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort))
    )
    text = buffer.raw[: 2 * max(0, n_written - 1)].decode("utf-16-le", "replace")
    if len(text) != n_all:
        # Characters of two halves, or such that pdfium leaves out.
        codes = [raw.FPDFText_GetUnicode(text_page.raw, index) for index in range(n_all)]
        text = "".join(chr(code) if code < 0x110000 else " " for code in codes)
    # Both stand for a hyphen that ends a line.
    return text.replace("\0", " ").replace("\ufffe", "\x02")


def turned(turn: int, box: _Box) -> _Box:
    """Return left, top, right and bottom of a box of the page as if its text were not turned."""
    left, bottom, right, top = box
    if turn == 1:
        return bottom, left, top, right
    if turn == 2:
        return -right, bottom, -left, top
    if turn == 3:
        return -top, -right, -bottom, -left
    return left, -top, right, -bottom


def _goes_on(word: Word, box: _Box) -> bool:
    """Return whether a character belongs to the word that ends before it."""
    if word.turn == DIAGONAL:
        return True
    left, top, right, bottom = turned(word.turn, box)
    size = word.bottom - word.top
    height = bottom - top
    if abs(top + bottom - word.top - word.bottom) > 2 * _STEP * min(size, height) + _HAIR:
        return False
    if max(left - word.right, word.left - right) > _GAP * size:
        return False
    # A power or a footnote's mark is a word of its own.
    return height > _RAISED_SIZE * size or bottom > word.bottom - 0.15 * size


def _is_level(word: Word, box: _Box, n_letters: int) -> bool:
    """Return whether a box on the line of a word is where its last letter may be."""
    left, top, right, bottom = box
    size = word.size
    is_even = abs(top - word.top) < 0.12 * size and abs(bottom - word.bottom) < 0.12 * size
    return is_even and word.left < right < word.left + 1.3 * size * n_letters and left > word.left


def _touches(word: Word, box: _Box) -> bool:
    """Return whether a character stands on the line of a word, right behind it."""
    if word.turn == DIAGONAL:
        return False
    left, top, _, bottom = turned(word.turn, box)
    return _is_behind(word, left, top, bottom)


def _is_behind(word: Word, left: float, top: float, bottom: float) -> bool:
    size = word.bottom - word.top
    is_level = abs(top + bottom - word.top - word.bottom) < 0.2 * size
    return is_level and -0.2 * size < left - word.right < _TOUCH * size


def _stretch(word: Word, box: _Box) -> None:
    left, top, right, bottom = turned(word.turn, box)
    word.left, word.right = min(word.left, left), max(word.right, right)
    if word.turn == DIAGONAL:
        word.top, word.bottom = min(word.top, top), max(word.bottom, bottom)


def _is_raised(last: Word, word: Word) -> bool:
    """Return whether the word is smaller than what it follows at once, and stands higher."""
    is_beside = -_GAP * last.size < word.left - last.right < _GAP * last.size
    is_small = word.size < _RAISED_SIZE * last.size
    return (
        is_beside
        and is_small
        and last.top - last.size / 2 < word.top
        and (word.bottom < last.bottom - 0.15 * last.size)
    )


def _is_same_word(last: Word, word: Word) -> bool:
    """Return whether a word goes on in another size, such as behind a footnote's mark."""
    is_beside = -_GAP * last.size < word.left - last.right < 0.15 * last.size
    overlap = min(last.bottom, word.bottom) - max(last.top, word.top)
    return is_beside and overlap > 0.5 * min(last.size, word.size)
