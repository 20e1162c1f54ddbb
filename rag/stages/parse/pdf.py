"""Parser for PDF through pdfium: pages laid out as paragraphs and tables, bookmarks as headings.

pdfium is not safe in threads: this runs in a process of its own.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import pypdfium2 as pdfium
from pypdfium2 import raw

from rag.core.documents import Block, Notice, Page, ParsedDocument
from rag.core.errors import DocumentError
from rag.core.ocr.scans import PageWords
from rag.stages.detect.clean import clean_text, has_swapped_letters, is_garbled
from rag.stages.detect.file_errors import NEEDS_OCR, damaged_file
from rag.stages.parse.canonical import MAX_CHARS
from rag.stages.parse.headings import numbered_headings
from rag.stages.parse.ocr.pdf_pictures import count_letters, is_picture
from rag.stages.parse.ocr.scanned_page import (
    Recognized,
    is_unsure,
    listed,
    no_words_recognized,
    scan_notices,
    scanned_page,
)
from rag.stages.parse.pdf_file import open_pdf
from rag.stages.parse.pdf_layout.assemble import PdfText, merge_blocks
from rag.stages.parse.pdf_layout.flow import ReadPage, laid_out, layered_page, plain_page
from rag.stages.parse.pdf_layout.page import read_layers
from rag.stages.parse.pdf_layout.words import MAX_GLYPHS
from rag.stages.text.normalize import occurrences

_DEPTH = re.compile(r"\d{1,2}((?:\.\d{1,2})+)(?!\d)")
# What a page prints before a title and its bookmark leaves out: 1.2, B., 第三章, Chapter 3:.
_NUMBER = re.compile(
    r"\s*(?:[\dA-Z]{1,3}(?:\.\d{1,3})*\.?|[IVX]{1,5}\.?|第.{1,5}[编章節节條条]"
    r"|[A-Z]\w+ \d{1,3}[.:]?)?\s*"
)
_NOTHING = re.compile(r"[^\S\n]*(?:\n|\Z)")
MAX_PAGES = 20_000
MAX_BOOKMARKS = 5_000
# Pages behind that much time are read without their layout, so that all are read.
LAYOUT_S = 60.0
_ATTACHED = Notice("Attachments are not read; upload them as files of their own.")
_REPAIRED = Notice("The file was damaged; what could be repaired is kept.")
_MISNAMED = Notice(
    "Its letters are spread as in no language: its font may name others than it shows. Compare its "
    "text with its pages; printed anew as images, text recognition can read it."
)
_STATES = ("full", "scan", "garbled", "broken", "blank", "recognized", "failed")


def place_bookmarks(
    bookmarks: Iterable[tuple[str, int, int]], pages: Sequence[Page], text: str
) -> tuple[Block, ...]:
    """Return headings in order: bookmarks, and chapters that the text alone numbers.

    A bookmark is (title, level from 1, index of its page). It becomes a heading where its title
    stands on that page, whatever the white space, width and forms of its letters; a title that the
    page does not hold is left out, since a heading is a span of the text.
    """
    found: dict[int, Block] = {}
    squeezed: dict[int, _Squeezed] = {}  # That of one page: a thousand would fill the memory.
    for title, level, index in bookmarks:
        letters = _squeeze(title)[0]
        if not letters or not 0 <= index < len(pages):
            continue
        page = pages[index]
        if index not in squeezed:
            squeezed = {index: _Squeezed(text[page.start : page.end])}
        for start, end in squeezed[index].spans(letters):
            at = page.start + start
            if not any(_overlap(block, at, page.start + end) for block in found.values()):
                found[at] = Block("heading", at, page.start + end, _level(title, level))
                break
    # Without bookmarks all numbers count; beside them only chapters, which may have none.
    numbered = [b for b in numbered_headings(text) if b.level == 1 or not found]
    free = [n for n in numbered if not any(_overlap(b, n.start, n.end) for b in found.values())]
    return tuple(sorted([*found.values(), *free], key=lambda block: block.start))


def _overlap(block: Block, start: int, end: int) -> bool:
    return block.start < end and start < block.end


def _level(title: str, level: int) -> int:
    depth = _DEPTH.match(title)
    return min(6, max(level, depth[1].count(".") + 1 if depth else 1))


class _Squeezed:
    """A page's text without white space and letter forms, with the way back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.squeezed, self.places = _squeeze(text)

    def spans(self, letters: str) -> list[tuple[int, int]]:
        """Return where the title stands: its lines with their number, else words of a line."""
        whole, inside = [], []
        for at in occurrences(self.squeezed, letters):
            start, end = self.places[at], self.places[at + len(letters) - 1] + 1
            line = self.text.rfind("\n", 0, start) + 1
            if _NUMBER.fullmatch(self.text, line, start) and _NOTHING.match(self.text, end):
                lead = self.text[line:end]
                whole.append((end - len(lead.lstrip()), end))
            else:
                inside.append((start, end))
        return whole or inside


def _squeeze(text: str) -> tuple[str, list[int]]:
    out: list[str] = []
    places: list[int] = []
    for index, character in enumerate(text):
        for part in unicodedata.normalize("NFKC", character).casefold():
            if not part.isspace() and part.isprintable():
                out.append(part)
                places.append(index)
    return "".join(out), places


def parse_pdf(path: Path, name: str, recognized: Recognized) -> ParsedDocument:
    """Return the text of every page; raise DocumentError for what cannot be read.

    ``recognized`` are the words of pages that OCR has read, by their number.
    """
    document, is_repaired = open_pdf(path, name)
    n_pages = _count_pages(document, name)
    has_form = document.get_formtype() != raw.FORMTYPE_NONE
    if has_form:
        document.init_forms()
    written = PdfText()
    states: dict[str, list[int]] = {state: [] for state in _STATES}
    plain: list[int] = []
    unsure: list[int] = []
    words: list[str] = []
    for number, page in enumerate(laid_out(_pages(document, has_form, recognized))):
        states[page.state].append(number + 1)
        plain += [number + 1] * page.is_plain
        unsure += [number + 1] * is_unsure(page)
        words += page.unsure_words
        written.add_page(page, _label(document, number))
        if written.length >= MAX_CHARS:
            break
    if not states["full"] and not written.text.strip():
        _refuse(states, name)
        if is_repaired or states["broken"] or _has_errors(path):
            raise damaged_file(name)
    text, pages = written.text, tuple(written.pages)
    headings = place_bookmarks(_toc(document), pages, text)
    return ParsedDocument(
        "pdf",
        text,
        "pypdfium2/5",
        pages,
        merge_blocks(headings, written.tables),
        "",
        _title(document),
        (
            *([_REPAIRED] if is_repaired else []),
            *_warnings(states, len(pages), n_pages),
            *([_plain_notice(plain)] if plain else []),
            *scan_notices(unsure, states["failed"], words),
            *([_MISNAMED] if has_swapped_letters(text) else []),
            *([_ATTACHED] if document.count_attachments() else []),
        ),
    )


def _count_pages(document: pdfium.PdfDocument, name: str) -> int:
    n_pages = len(document)
    if n_pages > MAX_PAGES:
        raise DocumentError(
            "“{name}” has {n} pages.",
            hint="Split it into parts of at most {limit} pages.",
            name=name,
            n=n_pages,
            limit=MAX_PAGES,
        )
    return n_pages


def _pages(
    document: pdfium.PdfDocument, has_form: bool, recognized: Recognized
) -> Iterator[ReadPage]:
    started = time.process_time()
    for number in range(len(document)):
        is_late = time.process_time() - started > LAYOUT_S
        scan = recognized.get(number + 1)
        yield _read_page(document, number, has_form, scan, is_plain=is_late)


def _read_page(
    document: pdfium.PdfDocument,
    number: int,
    has_form: bool,
    scan: PageWords | None,
    *,
    is_plain: bool,
) -> ReadPage:
    try:
        with (
            closing(_load(document, number, has_form)) as page,
            closing(page.get_textpage()) as text_page,
        ):
            is_plain = is_plain or text_page.count_chars() > MAX_GLYPHS
            if is_plain:
                layers, text = [], text_page.get_text_range()
            else:
                layers = read_layers(page, text_page)
                text = "\n".join(layer.text for layer in layers)
            n_letters = count_letters(text)
            is_bare = is_picture(page, n_letters)
    except pdfium.PdfiumError:
        return ReadPage("broken")
    if scan is not None and (is_garbled(text) or count_letters(scan.text) >= n_letters):
        return scanned_page(scan, is_plain=is_plain)
    if is_garbled(text):
        return ReadPage("garbled")
    state = "scan" if is_bare else "full" if n_letters else "blank"
    if not layers and text.strip():
        return plain_page(state, text, is_plain=is_plain)
    return layered_page(state, layers)


def _load(document: pdfium.PdfDocument, number: int, has_form: bool) -> pdfium.PdfPage:
    page = document[number]
    if has_form and page.flatten() == raw.FLATTEN_SUCCESS:
        # What is filled in counts as text only after the page is loaded anew.
        page.close()
        page = document[number]
    return page


def _refuse(states: dict[str, list[int]], name: str) -> None:
    """Raise the reason why no page has text, unless all that have been read are blank."""
    if states["scan"]:
        raise DocumentError(
            "“{name}” has no text layer: its pages are images.",
            hint=NEEDS_OCR.message,
            name=name,
            **NEEDS_OCR.params,
        )
    if states["garbled"]:
        raise DocumentError(
            "The fonts of “{name}” cannot be read as text.",
            hint=NEEDS_OCR.message,
            name=name,
            **NEEDS_OCR.params,
        )
    if states["recognized"] or states["failed"]:
        raise no_words_recognized(name)


def _has_errors(path: Path) -> bool:
    """Return whether what looks blank is so because its content cannot be read."""
    import pikepdf  # Only documents without a word need it; it costs a fifth of a second.

    try:
        with pikepdf.open(path) as document:
            # A page without fonts needs none when it is blank; qpdf mends such trifles itself.
            problems = [text for text in document.check_pdf_syntax() if "repairing" not in text]
            return bool(problems or not document.pages)
    except (pikepdf.PikepdfError, RuntimeError, ValueError):
        return True


def _warnings(states: dict[str, list[int]], n_read: int, n_pages: int) -> Iterator[Notice]:
    if scan := states["scan"]:
        yield Notice(
            "No text layer on page {pages}: nothing of it is searchable.", pages=listed(scan)
        )
    if garbled := states["garbled"]:
        yield Notice(
            "The font's characters cannot be read on page {pages}: nothing of it is searchable.",
            pages=listed(garbled),
        )
    if (scan or garbled) and not (states["recognized"] or states["failed"]):
        yield NEEDS_OCR
    elif scan:
        yield Notice("Text recognition reads no more pages of one file: RAG_OCR_MAX_PAGES.")
    if broken := states["broken"]:
        yield Notice("Damage on page {pages}: nothing of it is searchable.", pages=listed(broken))
    if n_read < n_pages:
        yield Notice("Only the first {n} of {total} pages are kept.", n=n_read, total=n_pages)


def _plain_notice(numbers: Sequence[int]) -> Notice:
    return Notice(
        "The layout of page {pages} is too much to read: tables and running heads are plain text.",
        pages=listed(numbers),
    )


def _label(document: pdfium.PdfDocument, number: int) -> str:
    label = clean_text(document.get_page_label(number)).strip()[:80]
    return label or str(number + 1)


def _title(document: pdfium.PdfDocument) -> str:
    return " ".join(clean_text(document.get_metadata_value("Title")).split())[:200]


def _toc(document: pdfium.PdfDocument) -> Iterator[tuple[str, int, int]]:
    """Yield title, level from 1 and page index of each bookmark that points to a page."""
    for item in islice(document.get_toc(max_depth=6), MAX_BOOKMARKS):
        target = item.get_dest()
        index = target.get_index() if target else None
        if index is not None:
            yield clean_text(item.get_title()), item.level + 1, index
