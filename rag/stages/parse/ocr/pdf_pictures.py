"""Pictures of PDF pages that have no text of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing

import pypdfium2 as pdfium
from pypdfium2 import raw

from rag.stages.detect.clean import is_garbled
from rag.stages.detect.file_errors import damaged_file
from rag.stages.parse.ocr.recognize import PagePicture

# A scanner's usual resolution, at which small print is still read; more only costs time.
_DPI, _LEAST_SIDE = 200, 1600
_MOST_PIXELS = 24_000_000
MIN_LETTERS, FEW_LETTERS = 20, 200
# Drawn letters take many strokes; a rule or a frame takes few.
MANY_SHAPES = 100
# A page is looked at in so many fields each way, to know how much of it images cover.
_FIELDS = 40


def covered_by_images(page: pdfium.PdfPage) -> tuple[float, int]:
    """Return how much of a page images cover together, 0 to 1, and the number of other shapes."""
    left, bottom, right, top = page.get_bbox()
    wide, high = max(right - left, 0.1), max(top - bottom, 0.1)
    fields = bytearray(_FIELDS * _FIELDS)
    n_shapes = 0
    for item in page.get_objects(max_depth=3):
        if item.type == raw.FPDF_PAGEOBJ_IMAGE:
            x0, y0, x1, y1 = item.get_bounds()
            columns = _fields((x0 - left) / wide, (x1 - left) / wide)
            for row in _fields((y0 - bottom) / high, (y1 - bottom) / high):
                at = row * _FIELDS
                fields[at + columns.start : at + columns.stop] = b"\1" * len(columns)
        n_shapes += item.type == raw.FPDF_PAGEOBJ_PATH
    return sum(fields) / len(fields), n_shapes


def _fields(low: float, high: float) -> range:
    """Return the fields whose middle lies between two shares of the page."""
    first = max(0, math.ceil(low * _FIELDS - 0.5))
    return range(first, max(first, min(_FIELDS, math.ceil(high * _FIELDS - 0.5))))


def is_picture(page: pdfium.PdfPage, n_letters: int) -> bool:
    """Return whether a page with so few letters is a scan, or its letters are drawn."""
    if n_letters >= MIN_LETTERS:
        return False
    covered, n_shapes = covered_by_images(page)
    return covered > 0.5 or (not n_letters and n_shapes >= MANY_SHAPES)


def count_letters(text: str) -> int:
    """Return how many letters and digits a text has."""
    return sum(character.isalnum() for character in text)


def wants_ocr(page: pdfium.PdfPage, text: str) -> bool:
    """Return whether a page's own text is not what people see on it.

    A scan may bear a stamp or a running head as text: it is read too, and the richer text counts.
    """
    n_letters = count_letters(text)
    if is_picture(page, n_letters) or is_garbled(text):
        return True
    return n_letters < FEW_LETTERS and covered_by_images(page)[0] > 0.8


def pages_for_ocr(document: pdfium.PdfDocument) -> Iterator[int]:
    """Yield the numbers of the pages that want OCR, from 1."""
    for number in range(1, len(document) + 1):
        if _wants_ocr(document, number):
            yield number


def _wants_ocr(document: pdfium.PdfDocument, number: int) -> bool:
    try:
        with closing(document[number - 1]) as page, closing(page.get_textpage()) as text_page:
            return wants_ocr(page, text_page.get_text_range())
    except pdfium.PdfiumError:
        return False


def pdf_picture(document: pdfium.PdfDocument, name: str, number: int) -> PagePicture:
    """Return a page as a picture; raise DocumentError for one that cannot be drawn."""
    try:
        with closing(document[number - 1]) as page:
            width, height = page.get_size()
            pixels = page.render(scale=_scale(page, width, height)).to_numpy()[:, :, :3].copy()
    except pdfium.PdfiumError as error:
        raise damaged_file(name) from error
    return PagePicture(number, pixels, width, height)


def _scale(page: pdfium.PdfPage, width: float, height: float) -> float:
    """Return pixels a point: those of the page's images, within what is of use."""
    own = 0.0
    for item in page.get_objects(max_depth=3):
        if item.type == raw.FPDF_PAGEOBJ_IMAGE:
            left, _, right, _ = item.get_bounds()
            if right - left > 0.3 * width:
                own = max(own, item.get_px_size()[0] / (right - left))
    least = _LEAST_SIDE / max(width, height)
    scale = min(max(own or _DPI / 72, least), max(_DPI / 72, least))
    return float(min(scale, math.sqrt(_MOST_PIXELS / max(1.0, width * height))))
