"""PDF through pdfium. In: a file. Out: its pages' text with bookmarks as headings.

pdfium is not safe in threads: this runs in a process of its own.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import pypdfium2 as pdfium
from pypdfium2 import raw

from rag.core.documents import Block, Page, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.clean import clean_text, is_garbled

MAX_PAGES = 20_000
MIN_LETTERS = 20
MAX_BOOKMARKS = 5_000
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
    warnings: list[str] = []
    position = 0
    for number in range(n_pages):
        text, has_text = _page_text(document, number)
        if is_garbled(text):
            warnings.append(f"Page {number + 1}: the font's characters cannot be read.")
            text, has_text = "", False
        pages.append(
            Page(number + 1, _label(document, number), position, position + len(text), has_text)
        )
        texts.append(text)
        position += len(text) + 1
    blank = [str(page.number) for page in pages if not page.has_text_layer]
    if len(blank) == n_pages:
        raise DocumentError(
            "“{name}” has no text layer: its pages are images.",
            hint="Run text recognition (OCR) on it and upload the result.", name=name,
        )  # fmt: skip
    if blank:
        listed = ", ".join(blank[:20]) + (" …" if len(blank) > 20 else "")
        warnings.append(f"No text layer on page {listed}: nothing of it is searchable.")
    blocks = _bookmarks(document, pages, texts)
    return ParsedDocument(
        "pdf", "\f".join(texts), "pypdfium2/1", tuple(pages), blocks, "", "", tuple(warnings)
    )


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
    try:
        page = document[number]
    except pdfium.PdfiumError:
        return "", False
    try:
        text_page = page.get_textpage()
        text = _reflow(clean_text(text_page.get_text_bounded()).replace("\f", "\n"))
        text_page.close()
        has_text = sum(c.isalnum() for c in text) >= MIN_LETTERS or not _is_scan(page)
    finally:
        page.close()
    return text, has_text and bool(text.strip())


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
    return label or str(number + 1)


def _bookmarks(
    document: pdfium.PdfDocument, pages: Sequence[Page], texts: Sequence[str]
) -> tuple[Block, ...]:
    """Return headings where a bookmark's title stands on the page that it points to."""
    found: dict[int, Block] = {}
    for n_seen, item in enumerate(document.get_toc(max_depth=6)):
        if n_seen >= MAX_BOOKMARKS:
            break
        title = " ".join(item.get_title().split())
        target = item.get_dest()
        index = target.get_index() if target else None
        if not title or index is None or not 0 <= index < len(pages):
            continue
        at = texts[index].find(title)
        start = pages[index].start + max(0, at)
        end = start + (len(title) if at >= 0 else 0)
        if at >= 0:
            found.setdefault(start, Block("heading", start, end, min(6, item.level + 1)))
    return tuple(found[start] for start in sorted(found))
