"""Parser for PDF through pdfium: pages laid out as paragraphs and tables, bookmarks as headings.

pdfium is not safe in threads: this runs in a process of its own.
"""

from __future__ import annotations

import io
import re
import time
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pypdfium2 as pdfium
from pypdfium2 import raw

from rag.core.documents import Block, Notice, Page, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.detect.clean import clean_text, is_garbled
from rag.stages.detect.file_errors import (
    damaged_file,
    password_protected_file,
    rights_protected_file,
)
from rag.stages.parse.canonical import MAX_CHARS
from rag.stages.parse.headings import numbered_headings
from rag.stages.parse.pdf_layout.assemble import PdfText, merge_blocks
from rag.stages.parse.pdf_layout.page import Layer, lay_out, read_layers
from rag.stages.parse.pdf_layout.paragraphs import Line, Paragraph
from rag.stages.parse.pdf_layout.running import (
    AROUND,
    NO_EDGES,
    Edges,
    page_edges,
    running_rows,
    take_rows,
)
from rag.stages.parse.pdf_layout.tables import Table
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
MIN_LETTERS = 20
# Drawn letters take many strokes; a rule or a frame takes few.
MANY_SHAPES = 100
N_LISTED = 20
MAX_MARGIN = 1000
MAX_BOOKMARKS = 5_000
# Pages behind that much time are read without their layout, so that all are read.
LAYOUT_S = 60.0
_ATTACHED = Notice("Attachments are not read; upload them as files of their own.")
_REPAIRED = Notice("The file was damaged; what could be repaired is kept.")
_STATES = ("full", "scan", "garbled", "broken", "blank")


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


def parse_pdf(path: Path, name: str) -> ParsedDocument:
    """Return the text of every page; raise DocumentError for what cannot be read."""
    document, is_repaired = _open(path, name)
    n_pages = len(document)
    if n_pages > MAX_PAGES:
        raise DocumentError(
            "“{name}” has {n} pages.",
            hint="Split it into parts of at most {limit} pages.",
            name=name,
            n=n_pages,
            limit=MAX_PAGES,
        )
    has_form = document.get_formtype() != raw.FORMTYPE_NONE
    if has_form:
        document.init_forms()
    written = PdfText()
    states: dict[str, list[int]] = {state: [] for state in _STATES}
    plain: list[int] = []
    for number, page in enumerate(_pages(document, has_form)):
        states[page.state].append(number + 1)
        plain += [number + 1] * page.is_plain
        has_text = page.state in ("full", "blank")
        written.add_page(page.items, _label(document, number), page.margin, has_text)
        if written.length >= MAX_CHARS:
            break
    if not states["full"]:
        _refuse(states, name)
        if is_repaired or states["broken"] or _has_errors(path):
            raise damaged_file(name)
    text, pages = written.text, tuple(written.pages)
    headings = place_bookmarks(_toc(document), pages, text)
    return ParsedDocument(
        "pdf",
        text,
        "pypdfium2/4",
        pages,
        merge_blocks(headings, written.tables),
        "",
        _title(document),
        (
            *([_REPAIRED] if is_repaired else []),
            *_warnings(states, len(pages), n_pages),
            *([_plain_notice(plain)] if plain else []),
            *([_ATTACHED] if document.count_attachments() else []),
        ),
    )


def _open(path: Path, name: str) -> tuple[pdfium.PdfDocument, bool]:
    """Return the document and whether it had to be repaired."""
    try:
        return pdfium.PdfDocument(path), False
    except pdfium.PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            raise password_protected_file(name) from error
        if error.err_code == raw.FPDF_ERR_SECURITY:
            raise rights_protected_file(name) from error
    return _repaired(path, name), True


def _repaired(path: Path, name: str) -> pdfium.PdfDocument:
    """Return the document after one try of qpdf to rewrite it."""
    import pikepdf  # Only damaged files need it; it costs a fifth of a second.

    try:
        with pikepdf.open(path) as broken:
            out = io.BytesIO()
            broken.save(out)
        return pdfium.PdfDocument(out.getvalue())
    except pikepdf.PasswordError as error:
        raise password_protected_file(name) from error
    except (pikepdf.PikepdfError, pdfium.PdfiumError, RuntimeError, ValueError) as error:
        raise damaged_file(name) from error


@dataclass(slots=True)
class _ReadPage:
    """A page's state, full, scan, garbled, broken or blank, and its words by their turn."""

    state: str
    layers: list[Layer]
    edges: Edges
    items: list[Paragraph | Table] = field(default_factory=list)
    margin: str = ""
    is_plain: bool = False


def _pages(document: pdfium.PdfDocument, has_form: bool) -> Iterator[_ReadPage]:
    """Yield the pages laid out; some pages ahead are read, to know what runs through them."""
    edges: deque[Edges] = deque(maxlen=2 * AROUND + 1)
    waiting: deque[_ReadPage] = deque()
    n_pages = len(document)
    started = time.process_time()
    for number in range(n_pages + AROUND):
        if number < n_pages:
            is_late = time.process_time() - started > LAYOUT_S
            page = _read_page(document, number, has_form, is_plain=is_late)
            edges.append(page.edges)
            waiting.append(page)
        if waiting and (number >= AROUND or number >= n_pages):
            page = waiting.popleft()
            _lay_out(page, list(edges), len(edges) - len(waiting) - 1)
            yield page


def _lay_out(page: _ReadPage, edges: Sequence[Edges], at: int) -> None:
    """Part a page's running heads and feet from its text, and order the rest."""
    n_top, n_bottom, turns = running_rows(edges, at)
    margin = take_rows(page.layers, n_top, n_bottom)
    for layer in page.layers:
        if layer.turn in turns:
            margin.append(" ".join(piece.text for piece in layer.pieces))
        else:
            page.items += lay_out(layer)
    page.layers = []
    page.margin = clean_text("\n".join(margin))[:MAX_MARGIN]


def _read_page(
    document: pdfium.PdfDocument, number: int, has_form: bool, *, is_plain: bool
) -> _ReadPage:
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
            n_letters = sum(character.isalnum() for character in text)
            is_bare = n_letters < MIN_LETTERS and _is_picture(page, is_blank=not n_letters)
    except pdfium.PdfiumError:
        return _ReadPage("broken", [], NO_EDGES)
    if is_garbled(text):
        return _ReadPage("garbled", [], NO_EDGES)
    state = "scan" if is_bare else "full" if n_letters else "blank"
    if not layers and text.strip():
        line = Line(text, 0, 0, 0, 0, 0)
        return _ReadPage(state, [], NO_EDGES, [Paragraph(text, line, line)], is_plain=is_plain)
    return _ReadPage(state, layers, page_edges(layers))


def _load(document: pdfium.PdfDocument, number: int, has_form: bool) -> pdfium.PdfPage:
    page = document[number]
    if has_form and page.flatten() == raw.FLATTEN_SUCCESS:
        # What is filled in counts as text only after the page is loaded anew.
        page.close()
        page = document[number]
    return page


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


def _refuse(states: dict[str, list[int]], name: str) -> None:
    """Raise the reason why no page has text, unless all that have been read are blank."""
    if states["scan"]:
        raise DocumentError(
            "“{name}” has no text layer: its pages are images.",
            hint="Run text recognition (OCR) on it and upload the result.",
            name=name,
        )
    if states["garbled"]:
        raise DocumentError(
            "The fonts of “{name}” cannot be read as text.",
            hint="Export it anew, or run text recognition (OCR) on it, and upload the result.",
            name=name,
        )


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
            "No text layer on page {pages}: nothing of it is searchable.", pages=_listed(scan)
        )
    if garbled := states["garbled"]:
        yield Notice(
            "The font's characters cannot be read on page {pages}: nothing of it is searchable.",
            pages=_listed(garbled),
        )
    if broken := states["broken"]:
        yield Notice("Damage on page {pages}: nothing of it is searchable.", pages=_listed(broken))
    if n_read < n_pages:
        yield Notice("Only the first {n} of {total} pages are kept.", n=n_read, total=n_pages)


def _plain_notice(numbers: Sequence[int]) -> Notice:
    return Notice(
        "The layout of page {pages} is too much to read: tables and running heads are plain text.",
        pages=_listed(numbers),
    )


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:N_LISTED])) + (" …" if len(numbers) > N_LISTED else "")


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
