"""PDF page rendering: a page as PNG, with the boxes of a quote.

pdfium is not safe in threads: this runs in a process of its own.
"""

from __future__ import annotations

import struct
import unicodedata
import zlib
from collections.abc import Callable, Sequence
from ctypes import byref, c_int
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import pypdfium2 as pdfium
from pypdfium2 import raw

from rag.core.documents import Box, PageImage
from rag.core.errors import DocumentError
from rag.stages.text.normalize import occurrences

WIDTH = 1100
# A page may be a strip of kilometres: its picture may not.
MAX_PIXELS = 6_000_000
MAX_CHARS = 100_000
MAX_BOXES = 200
MAX_PLACES = 1000
# Letters around a place that are compared, and the least part of a quote that is marked alone.
_AROUND = 200
_LEAST_PART, _LEAST_SHARE = 8, 0.2


@dataclass(frozen=True, slots=True)
class _Marked:
    quote: str
    omitted: Sequence[Sequence[int]]
    around: tuple[str, str]


def draw_page(
    path: Path,
    name: str,
    number: int,
    quote: str,
    omitted: Sequence[Sequence[int]] = (),
    around: tuple[str, str] = ("", ""),
) -> PageImage:
    """Return page ``number``, counted from 1; without boxes where the quote is not found.

    ``omitted`` are spans of the quote, in order, that have no boxes. ``around`` is the page's text
    before and behind the quote: words that stand there several times are marked where they were
    quoted. Raises DocumentError for what cannot be drawn.
    """
    try:
        document = pdfium.PdfDocument(path)
        if not 1 <= number <= len(document):
            raise DocumentError("“{name}” has no page {number}.", name=name, number=number)
        document.init_forms()
        page = document[number - 1]
        width, height = page.get_size()
        scale = min(WIDTH / max(width, 1), (MAX_PIXELS / max(width * height, 1)) ** 0.5)
        bitmap = page.render(scale=scale, rev_byteorder=True, no_smoothtext=False)
        boxes = _boxes(page, _Marked(quote, omitted, around))
    except pdfium.PdfiumError as error:
        raise DocumentError(
            "Page {number} of “{name}” cannot be drawn.", name=name, number=number
        ) from error
    return PageImage(_png(bitmap), bitmap.width, bitmap.height, boxes)


def _boxes(page: pdfium.PdfPage, marked: _Marked) -> tuple[Box, ...]:
    text_page = page.get_textpage()
    width, height = page.get_size()
    boxes: list[Box] = []
    for span in _find(text_page, marked):
        # The rectangles of a span, one for each piece of a line, in points from the page's corner.
        for index in range(min(text_page.count_rects(*span), MAX_BOXES - len(boxes))):
            left, bottom, right, top = text_page.get_rect(index)
            corners = [_on_page(page, left, top), _on_page(page, right, bottom)]
            xs, ys = sorted(x for x, _ in corners), sorted(y for _, y in corners)
            sides = (xs[0] / width, ys[0] / height, xs[1] - xs[0], ys[1] - ys[0])
            sides = (*sides[:2], sides[2] / width, sides[3] / height)
            boxes.append(
                (round(sides[0], 5), round(sides[1], 5), round(sides[2], 5), round(sides[3], 5))
            )
    return tuple(boxes)


def _on_page(page: pdfium.PdfPage, x: float, y: float) -> tuple[float, float]:
    """Return a point of the page's own space on the picture, turned and cropped as it is shown."""
    width, height = page.get_size()
    # In thousandths of a point, since the answer comes in whole numbers.
    across, down = c_int(), c_int()
    raw.FPDF_PageToDevice(
        page, 0, 0, round(width * 1000), round(height * 1000), 0, x, y, byref(across), byref(down)
    )
    return across.value / 1000, down.value / 1000


def _find(text_page: pdfium.PdfTextPage, marked: _Marked) -> list[tuple[int, int]]:
    """Return index and number of the page's characters that say each part of the quote.

    Only letters and digits count: lines, hyphens and signs are not what they were after reading.
    """
    borders = [0, *(at for span in marked.omitted for at in span), len(marked.quote)]
    parts = [_folded(marked.quote[start:end]) for start, end in pairwise(borders)]
    letters: list[str] = []
    places: list[int] = []
    for index in range(min(text_page.count_chars(), MAX_CHARS)):
        for letter in _letters(chr(raw.FPDFText_GetUnicode(text_page, index) or 32)):
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


def _place(page: str, wanted: str, marked: _Marked) -> tuple[int, int, int]:
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


def _png(bitmap: pdfium.PdfBitmap) -> bytes:
    """Return a PNG of 8 bits a channel, as RFC 2083 says; pdfium has none of its own."""
    kinds = {1: 0, 3: 2, 4: 6}
    pixels, n_row = memoryview(bitmap.buffer).cast("B"), bitmap.width * bitmap.n_channels
    rows = bytearray()
    for y in range(bitmap.height):
        start = y * bitmap.stride
        rows += b"\0" + pixels[start : start + n_row]
    head = struct.pack(
        ">IIBBBBB", bitmap.width, bitmap.height, 8, kinds[bitmap.n_channels], 0, 0, 0
    )
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(rows), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(kind, data) for kind, data in parts)


def _part(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
