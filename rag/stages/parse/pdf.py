"""Parser for PDF through pdfium: text by page, lines joined to paragraphs, bookmarks as headings.

pdfium is not safe in threads: this runs in a process of its own.
"""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
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
from rag.stages.text.normalize import occurrences

_DEPTH = re.compile(r"\d{1,2}((?:\.\d{1,2})+)(?!\d)")
# What a page prints before a title and its bookmark leaves out: 1.2, B., 第三章, Chapter 3:.
_NUMBER = re.compile(
    r"\s*(?:[\dA-Z]{1,3}(?:\.\d{1,3})*\.?|[IVX]{1,5}\.?|第.{1,5}[编章節节條条]"
    r"|[A-Z]\w+ \d{1,3}[.:]?)?\s*"
)
_NOTHING = re.compile(r"[^\S\n]*(?:\n|\Z)")
# A narrower line may be a list's, a table's or a title's own.
MIN_WIDTH = 30
_ENDED = re.compile(r"[。！？；：.!?:;][”’」』）\"')\]]*$")
_STARTS = re.compile(r"\s*(?:[-•·*●■–▪◦]|[(（]?\d{1,3}[.)）、]|\d+(?:\.\d+)+\s|第.{1,5}[章节条])")
# A short line that begins with a number is a title or an item.
_NUMBERED = re.compile(r"\s*\d{1,2}(?:\.\d{1,2})*\.?\s+\S")
MAX_PAGES = 20_000
MIN_LETTERS = 20
# Drawn letters take many strokes; a rule or a frame takes few.
MANY_SHAPES = 100
N_LISTED = 20
MAX_BOOKMARKS = 5_000
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


def reflow_lines(text: str) -> str:
    """Return the text with lines joined that the width of the page alone has broken."""
    lines = [line.rstrip() for line in text.split("\n")]
    widths = sorted(map(_width, filter(None, lines)))
    if len(widths) < 3:
        return "\n".join(lines)
    full = max(MIN_WIDTH, 0.72 * widths[int(0.9 * (len(widths) - 1))])
    out = [lines[0]]
    last = lines[0]
    for line in lines[1:]:
        is_broken = last and line and _width(last) >= full and not _ENDED.search(last)
        is_title = _NUMBERED.match(line) and _width(line) < full
        if is_broken and not is_title and not _STARTS.match(line):
            is_wide = ord(last[-1]) > 0x2E7F and ord(line.lstrip()[0]) > 0x2E7F
            out[-1] += ("" if is_wide else " ") + line.lstrip()
        else:
            out.append(line)
        last = line
    return "\n".join(out)


def _width(line: str) -> int:
    """Return the width in columns; Han characters take two."""
    return sum(2 if ord(character) > 0x2E7F else 1 for character in line)


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
    texts: list[str] = []
    pages: list[Page] = []
    states: dict[str, list[int]] = {state: [] for state in _STATES}
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
    if not states["full"]:
        _refuse(states, name)
        if is_repaired or states["broken"] or _has_errors(path):
            raise damaged_file(name)
    joined = "\f".join(texts)
    blocks = place_bookmarks(_toc(document), pages, joined)
    return ParsedDocument(
        "pdf",
        joined,
        "pypdfium2/3",
        tuple(pages),
        blocks,
        "",
        _title(document),
        (
            *([_REPAIRED] if is_repaired else []),
            *_warnings(states, len(pages), n_pages),
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


def _page_text(document: pdfium.PdfDocument, number: int, has_form: bool) -> tuple[str, str]:
    """Return a page's text and its state: full, scan, garbled, broken or blank."""
    try:
        with (
            closing(_load(document, number, has_form)) as page,
            closing(page.get_textpage()) as text_page,
        ):
            # Many fonts call their hyphen a soft one; what a page holds is drawn.
            drawn = text_page.get_text_bounded().replace("\xad", "-")
            text = clean_text(drawn).replace("\f", "\n")
            n_letters = sum(character.isalnum() for character in text)
            is_bare = n_letters < MIN_LETTERS and _is_picture(page, is_blank=not n_letters)
    except pdfium.PdfiumError:
        return "", "broken"
    if is_garbled(text):
        return "", "garbled"
    if is_bare:
        return reflow_lines(text), "scan"
    return reflow_lines(text), "full" if n_letters else "blank"


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
