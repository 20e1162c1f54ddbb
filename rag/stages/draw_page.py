"""Page rendering: a page of a PDF or an image as PNG, with the boxes of a quote.

pdfium is not safe in threads: this runs in a process of its own.
"""

from __future__ import annotations

import struct
import zlib
from ctypes import byref, c_int
from pathlib import Path

import pypdfium2 as pdfium
from pypdfium2 import raw

from rag.core.documents import Box, MarkedQuote, PageImage
from rag.core.errors import DocumentError
from rag.core.ocr.scans import PageWords
from rag.stages.detect.sniff import is_image
from rag.stages.quote_boxes import MAX_BOXES, as_share, boxes_on_scan, quote_spans

WIDTH = 1100
# A page may be a strip of kilometres: its picture may not.
MAX_PIXELS = 6_000_000
MAX_CHARS = 100_000
NOTHING_MARKED = MarkedQuote()


def draw_page(
    path: Path,
    name: str,
    number: int,
    marked: MarkedQuote = NOTHING_MARKED,
    scan: PageWords | None = None,
) -> PageImage:
    """Return page ``number``, counted from 1; without boxes where the quote is not found.

    ``scan`` are the words that OCR has recognized on it. Words that stand there several times are
    marked where they were quoted. Raises DocumentError for what cannot be drawn.
    """
    if is_image(path):
        return _drawn_image(path, name, number, marked, scan)
    try:
        document = pdfium.PdfDocument(path)
        if not 1 <= number <= len(document):
            raise _no_such_page(name, number)
        document.init_forms()
        page = document[number - 1]
        width, height = page.get_size()
        scale = min(WIDTH / max(width, 1), (MAX_PIXELS / max(width * height, 1)) ** 0.5)
        bitmap = page.render(scale=scale, rev_byteorder=True, no_smoothtext=False)
        boxes = boxes_on_scan(scan, marked) if scan else ()
        boxes = boxes or _boxes(page, marked)
    except pdfium.PdfiumError as error:
        raise DocumentError(
            "Page {number} of “{name}” cannot be drawn.", name=name, number=number
        ) from error
    pixels = bytes(bitmap.buffer), bitmap.width, bitmap.height
    return PageImage(_png(*pixels, bitmap.n_channels, bitmap.stride), *pixels[1:], boxes)


def _no_such_page(name: str, number: int) -> DocumentError:
    return DocumentError("“{name}” has no page {number}.", name=name, number=number)


def _drawn_image(
    path: Path, name: str, number: int, marked: MarkedQuote, scan: PageWords | None
) -> PageImage:
    # Most pages are those of PDFs, which need no such library.
    from rag.stages.parse.ocr.images import count_frames, read_frame

    if not 1 <= number <= count_frames(path, name):
        raise _no_such_page(name, number)
    frame = read_frame(path, name, number)
    scale = min(WIDTH / frame.width, (MAX_PIXELS / (frame.width * frame.height)) ** 0.5, 1.0)
    frame = frame.resize((max(1, int(frame.width * scale)), max(1, int(frame.height * scale))))
    boxes = boxes_on_scan(scan, marked) if scan else ()
    png = _png(frame.tobytes(), frame.width, frame.height, 3, 3 * frame.width)
    return PageImage(png, frame.width, frame.height, boxes)


def _boxes(page: pdfium.PdfPage, marked: MarkedQuote) -> tuple[Box, ...]:
    text_page = page.get_textpage()
    width, height = page.get_size()
    boxes: list[Box] = []
    codes = (
        chr(raw.FPDFText_GetUnicode(text_page, index) or 32)
        for index in range(min(text_page.count_chars(), MAX_CHARS))
    )
    for span in quote_spans(codes, marked):
        # The rectangles of a span, one for each piece of a line, in points from the page's corner.
        for index in range(min(text_page.count_rects(*span), MAX_BOXES - len(boxes))):
            left, bottom, right, top = text_page.get_rect(index)
            corners = [_on_page(page, left, top), _on_page(page, right, bottom)]
            xs, ys = sorted(x for x, _ in corners), sorted(y for _, y in corners)
            boxes.append(as_share((xs[0], ys[0], xs[1], ys[1]), width, height))
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


def _png(pixels: bytes, width: int, height: int, n_channels: int, stride: int) -> bytes:
    """Return a PNG of 8 bits a channel, as RFC 2083 says; pdfium has none of its own."""
    kinds = {1: 0, 3: 2, 4: 6}
    rows = bytearray()
    for y in range(height):
        start = y * stride
        rows += b"\0" + pixels[start : start + width * n_channels]
    head = struct.pack(">IIBBBBB", width, height, 8, kinds[n_channels], 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(rows), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(kind, data) for kind, data in parts)


def _part(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
