"""PDF through pdfium. In: a file. Out: its pages' text with bookmarks as headings.

pdfium is not safe in threads: this runs in a process of its own.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NoReturn

import pypdfium2 as pdfium
from pypdfium2 import raw

from rag.core.documents import Page, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.clean import clean_text, is_garbled
from rag.stages.parse.bookmarks import place_bookmarks

MAX_PAGES = 20_000
MIN_LETTERS = 20
MAX_BOOKMARKS = 5_000
MAX_TITLE, MAX_LABEL = 300, 40
_ENDED = re.compile(r"[。！？；：.!?:;][”’」』）\"')\]]*$")
_STARTS = re.compile(r"\s*(?:[-•·*●■–]|[(（]?\d{1,3}[.)）、]|\d+(?:\.\d+)+\s|第.{1,5}[章节条])")


def parse_pdf(path: Path, name: str) -> ParsedDocument:
    """Return the text of every page; raise DocumentError for what cannot be read."""
    document = _open(path, name)
    n_pages = len(document)
    if n_pages > MAX_PAGES:
        raise DocumentError(
            "“{name}” has {n} pages.", hint="Split it into parts of at most {limit} pages.",
            name=name, n=n_pages, limit=MAX_PAGES,
        )  # fmt: skip
    texts: list[str] = []
    pages: list[Page] = []
    garbled: list[int] = []
    position = 0
    for number in range(n_pages):
        text, has_text = _page_text(document, number)
        if is_garbled(text):
            garbled.append(number + 1)
            text, has_text = "", False
        end = position + len(text)
        pages.append(Page(number + 1, _label(document, number), position, end, has_text))
        texts.append(text)
        position = end + 1
    scanned = [page.number for page in pages if not page.has_text_layer]
    scanned = [number for number in scanned if number not in garbled]
    if not any(texts):
        _refuse(name, scanned, garbled)
    blocks = place_bookmarks(_toc(document), pages, texts)
    return ParsedDocument(
        "pdf", "\f".join(texts), "pypdfium2/1", tuple(pages), blocks,
        warnings=_warnings(scanned, garbled),
    )  # fmt: skip


def _refuse(name: str, scanned: list[int], garbled: list[int]) -> NoReturn:
    if garbled:
        raise DocumentError(
            "The fonts of “{name}” cannot be read as text.",
            hint="Export it anew, or run text recognition (OCR) on it, and upload the result.",
            name=name,
        )
    if scanned:
        raise DocumentError(
            "“{name}” has no text layer: its pages are images.",
            hint="Run text recognition (OCR) on it and upload the result.", name=name,
        )  # fmt: skip
    raise DocumentError("“{name}” holds no text.", hint="Upload a file with text.", name=name)


def _warnings(scanned: list[int], garbled: list[int]) -> tuple[str, ...]:
    found = []
    for pages, reason in (
        (scanned, "No text layer"), (garbled, "The font's characters cannot be read"),
    ):  # fmt: skip
        if pages:
            listed = ", ".join(map(str, pages[:20])) + (" …" if len(pages) > 20 else "")
            word = "page" if len(pages) == 1 else "pages"
            found.append(f"{reason} on {word} {listed}: nothing of it is searchable.")
    return tuple(found)


def _open(path: Path, name: str) -> pdfium.PdfDocument:
    try:
        return pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        if raw.FPDF_GetLastError() == raw.FPDF_ERR_PASSWORD or "password" in str(error).lower():
            raise DocumentError(
                "“{name}” needs a password.",
                hint="Remove the password and upload it again.",
                name=name,
            ) from error
    return _repaired(path, name)


def _repaired(path: Path, name: str) -> pdfium.PdfDocument:
    """Return the document after one try of qpdf to rewrite it."""
    import pikepdf  # Only damaged files need it; it costs a fifth of a second.

    try:
        with pikepdf.open(path) as damaged:
            out = io.BytesIO()
            damaged.save(out)
        return pdfium.PdfDocument(out.getvalue())
    except (pikepdf.PdfError, pdfium.PdfiumError, RuntimeError, ValueError) as error:
        raise DocumentError(
            "“{name}” is damaged.", hint="Open it, save it anew and upload that.", name=name
        ) from error


def _page_text(document: pdfium.PdfDocument, number: int) -> tuple[str, bool]:
    """Return the text of a page, and whether it has all that the page shows."""
    try:
        page = document[number]
    except pdfium.PdfiumError:
        return "", True
    try:
        text_page = page.get_textpage()
        text = _reflow(clean_text(text_page.get_text_bounded()).replace("\f", "\n"))
        text_page.close()
        has_text = sum(c.isalnum() for c in text) >= MIN_LETTERS or not _is_scan(page)
    finally:
        page.close()
    return text if text.strip() else "", has_text


def _reflow(text: str) -> str:
    """Return the text with lines joined that the page's width alone has broken."""
    lines = [line.rstrip() for line in text.split("\n")]
    widths = sorted(map(_width, filter(None, lines)))
    if len(widths) < 3:
        return "\n".join(lines)
    full = 0.72 * widths[int(0.9 * (len(widths) - 1))]
    out = [lines[0]]
    last = lines[0]
    for line in lines[1:]:
        is_broken = last and line and _width(last) >= full and not _ENDED.search(last)
        if is_broken and not _STARTS.match(line):
            wide = ord(last[-1]) > 0x2E7F and ord(line.lstrip()[0]) > 0x2E7F
            out[-1] += ("" if wide else " ") + line.lstrip()
        else:
            out.append(line)
        last = line
    return "\n".join(out)


def _width(line: str) -> int:
    """Return the width in columns; Han characters take two."""
    return sum(2 if ord(character) > 0x2E7F else 1 for character in line)


def _is_scan(page: pdfium.PdfPage) -> bool:
    """Return whether one image covers more than half of the page."""
    area = page.get_width() * page.get_height()
    for item in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        left, bottom, right, top = item.get_bounds()
        if (right - left) * (top - bottom) > 0.5 * area:
            return True
    return False


def _label(document: pdfium.PdfDocument, number: int) -> str:
    label: str = document.get_page_label(number)
    return " ".join(clean_text(label).split())[:MAX_LABEL] or str(number + 1)


def _toc(document: pdfium.PdfDocument) -> Iterator[tuple[str, int, int]]:
    """Yield title, level from 1 and page index of each bookmark that points to a page."""
    for item in islice(document.get_toc(max_depth=6), MAX_BOOKMARKS):
        target = item.get_dest()
        index = target.get_index() if target else None
        if index is not None:
            yield clean_text(item.get_title())[:MAX_TITLE], item.level + 1, index
