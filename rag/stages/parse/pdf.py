"""PDF through pdfium. In: a file. Out: its pages' text with bookmarks as headings.

pdfium is not safe in threads: this runs in a process of its own.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pypdfium2 as pdfium
from pypdfium2 import raw

from rag.core.documents import Page, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.clean import clean_text, is_garbled
from rag.stages.parse.canonical import MAX_CHARS
from rag.stages.parse.pdf_outline import outline_blocks
from rag.stages.parse.pdf_reflow import reflow_lines

MAX_PAGES = 20_000
MIN_LETTERS = 20
# Drawn letters take many strokes; a rule or a frame takes few.
MANY_SHAPES = 100
N_LISTED = 20
_SHOWN = "full", "scan", "garbled", "blank"


def parse_pdf(path: Path, name: str) -> ParsedDocument:
    """Return the text of every page; raise DocumentError for what cannot be read."""
    document = _open(path, name)
    n_pages = len(document)
    if n_pages > MAX_PAGES:
        raise DocumentError(
            "“{name}” has {n} pages.", hint="Split it into parts of at most {limit} pages.",
            name=name, n=n_pages, limit=MAX_PAGES,
        )  # fmt: skip
    has_form = document.get_formtype() != raw.FORMTYPE_NONE
    if has_form:
        document.init_forms()
    texts: list[str] = []
    pages: list[Page] = []
    states: dict[str, list[int]] = {state: [] for state in _SHOWN}
    position = 0
    for number in range(n_pages):
        text, state = _page_text(document, number, has_form)
        states[state].append(number + 1)
        end = position + len(text)
        has_text = state in ("full", "blank")
        pages.append(Page(number + 1, _label(document, number), position, end, has_text))
        texts.append(text)
        position = end + 1
        if position > MAX_CHARS:
            break
    _refuse_textless(states, name)
    joined = "\f".join(texts)
    return ParsedDocument(
        "pdf", joined, "pypdfium2/2", tuple(pages), outline_blocks(document, pages, joined), "",
        _title(document), tuple(_warnings(states, len(pages), n_pages)),
    )  # fmt: skip


def _open(path: Path, name: str) -> pdfium.PdfDocument:
    try:
        return pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            raise DocumentError(
                "“{name}” needs a password.",
                hint="Remove the password and upload it again.", name=name,
            ) from error  # fmt: skip
        if error.err_code == raw.FPDF_ERR_SECURITY:
            raise DocumentError(
                "“{name}” is protected in a way that cannot be opened.",
                hint="Remove the protection and upload it again.", name=name,
            ) from error  # fmt: skip
    return _repaired(path, name)


def _repaired(path: Path, name: str) -> pdfium.PdfDocument:
    """Return the document after one try of qpdf to rewrite it."""
    import pikepdf  # Only damaged files need it; it costs a fifth of a second.

    try:
        with pikepdf.open(path) as damaged:
            out = io.BytesIO()
            damaged.save(out)
        document = pdfium.PdfDocument(out.getvalue())
        if len(document):
            return document
        error: Exception | None = None
    except (pikepdf.PdfError, pdfium.PdfiumError, RuntimeError, ValueError) as caught:
        error = caught
    raise DocumentError(
        "“{name}” is damaged.", hint="Open it, save it anew and upload that.", name=name
    ) from error


def _page_text(document: pdfium.PdfDocument, number: int, has_form: bool) -> tuple[str, str]:
    """Return a page's text and its state: full, scan, garbled or blank."""
    try:
        page = document[number]
    except pdfium.PdfiumError:
        return "", "garbled"
    try:
        if has_form and page.flatten() == raw.FLATTEN_SUCCESS:
            # What is filled in counts as text only after the page is loaded anew.
            page.close()
            page = document[number]
        text_page = page.get_textpage()
        text = clean_text(text_page.get_text_bounded()).replace("\f", "\n")
        text_page.close()
        if is_garbled(text):
            return "", "garbled"
        n_letters = sum(character.isalnum() for character in text)
        if n_letters < MIN_LETTERS and _is_picture(page, is_blank=not n_letters):
            return reflow_lines(text), "scan"
    finally:
        page.close()
    return reflow_lines(text), "full" if n_letters else "blank"


def _is_picture(page: pdfium.PdfPage, *, is_blank: bool) -> bool:
    """Return whether an image covers half of the page, or strokes draw what no text says."""
    area = page.get_width() * page.get_height()
    n_shapes = 0
    for item in page.get_objects(max_depth=3):
        if item.type == raw.FPDF_PAGEOBJ_IMAGE:
            left, bottom, right, top = item.get_bounds()
            if (right - left) * (top - bottom) > 0.5 * area:
                return True
        n_shapes += item.type == raw.FPDF_PAGEOBJ_PATH
        if n_shapes >= MANY_SHAPES:
            break
    return is_blank and n_shapes >= MANY_SHAPES


def _refuse_textless(states: dict[str, list[int]], name: str) -> None:
    if states["full"] or not (states["scan"] or states["garbled"]):
        return
    if states["scan"]:
        raise DocumentError(
            "“{name}” has no text layer: its pages are images.",
            hint="Run text recognition (OCR) on it and upload the result.", name=name,
        )  # fmt: skip
    raise DocumentError(
        "The characters of “{name}” cannot be read.",
        hint="Run text recognition (OCR) on it and upload the result.", name=name,
    )  # fmt: skip


def _warnings(states: dict[str, list[int]], n_read: int, n_pages: int) -> list[str]:
    warnings = []
    if states["scan"]:
        pages = _listed(states["scan"])
        warnings.append(f"No text layer on page {pages}: nothing of it is searchable.")
    if states["garbled"]:
        pages = _listed(states["garbled"])
        warnings.append(f"The characters on page {pages} cannot be read: not searchable.")
    if n_read < n_pages:
        warnings.append(f"Only the first {n_read} of {n_pages} pages are kept.")
    return warnings


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:N_LISTED])) + (" …" if len(numbers) > N_LISTED else "")


def _label(document: pdfium.PdfDocument, number: int) -> str:
    label = clean_text(document.get_page_label(number)).strip()[:80]
    return label or str(number + 1)


def _title(document: pdfium.PdfDocument) -> str:
    return " ".join(clean_text(document.get_metadata_value("Title")).split())[:200]
