"""Parser for OFD (GB/T 33190): words of each page by their places, laid out as those of PDFs."""

from __future__ import annotations

import math
import posixpath
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from rag.core.documents import Notice, ParsedDocument
from rag.core.errors import DocumentError
from rag.core.ocr.scans import ScannedWord
from rag.stages.detect.file_errors import inconsistent_file
from rag.stages.parse.headings import numbered_headings
from rag.stages.parse.ocr.reading_order import to_layout
from rag.stages.parse.pdf_layout.assemble import PdfText, merge_blocks
from rag.stages.parse.pdf_layout.flow import ReadPage, laid_out, layered_page
from rag.stages.parse.pdf_layout.page import to_layers

_MM = 72 / 25.4
_MAX_PAGES, _MAX_WORDS = 5_000, 20_000
_WORD = re.compile(r"\S+")
_TALL = 0.8


def parse_ofd(path: Path, name: str) -> ParsedDocument:
    """Return the text by page; raise DocumentError when the file is damaged or holds none."""
    try:
        with zipfile.ZipFile(path) as bundle:
            package = _Package(bundle)
            addresses = list(package.pages())
            written = PdfText()
            read = (package.page(*one) for one in addresses[:_MAX_PAGES])
            for number, laid in enumerate(laid_out(read), 1):
                written.add_page(laid, str(number))
    except (ValueError, LookupError, ElementTree.ParseError) as error:
        raise inconsistent_file(name) from error
    if not written.text.strip("\f \n"):
        raise DocumentError(
            "“{name}” holds no text, only images or drawings.",
            hint="Save it as PDF and upload that.",
            name=name,
        )
    notices = []
    if len(addresses) > _MAX_PAGES:
        notices.append(Notice("Only the first {n} pages are read.", n=_MAX_PAGES))
    return ParsedDocument(
        "ofd",
        written.text,
        "ofd/1",
        tuple(written.pages),
        merge_blocks(list(numbered_headings(written.text)), written.tables),
        warnings=tuple(notices),
    )


class _Package:
    """The pages of a package, with the templates that lie below them."""

    def __init__(self, bundle: zipfile.ZipFile) -> None:
        self._bundle = bundle
        self._templates: dict[str, str] = {}

    def pages(self) -> Iterator[tuple[str, str]]:
        """Yield the folder of a document and the member of a page, in order."""
        for found in self._root("OFD.xml").iterfind("{*}DocBody/{*}DocRoot"):
            member = _joined("", found.text or "")
            folder = posixpath.dirname(member)
            document = self._root(member)
            for item in document.iterfind("{*}CommonData/{*}TemplatePage"):
                self._templates[item.get("ID", "")] = _joined(folder, item.get("BaseLoc", ""))
            for item in document.iterfind("{*}Pages/{*}Page"):
                yield folder, _joined(folder, item.get("BaseLoc", ""))

    def page(self, folder: str, member: str) -> ReadPage:
        """Return a page with its words, those of its template among them."""
        root = self._root(member)
        used = (item.get("TemplateID", "") for item in root.iterfind("{*}Template"))
        below = [self._root(self._templates[one]) for one in used if one in self._templates]
        words = [word for part in (*below, root) for word in _words(part)][:_MAX_WORDS]
        if not words:
            return ReadPage("blank")
        return layered_page("full", to_layers([word for word, _ in to_layout(words)], []))

    def _root(self, member: str) -> ElementTree.Element:
        return ElementTree.fromstring(self._bundle.read(member))


def _joined(folder: str, place: str) -> str:
    base = "" if place.startswith("/") else folder
    return posixpath.normpath(posixpath.join("/", base, place.lstrip("/"))).lstrip("/")


def _words(root: ElementTree.Element) -> Iterator[ScannedWord]:
    for item in root.iter():
        if item.tag.rpartition("}")[2] == "TextObject" and item.get("Visible") != "false":
            left, top, *_ = _numbers(item.get("Boundary", "")) or [0.0, 0.0]
            size = float(item.get("Size") or 4)
            matrix = _numbers(item.get("CTM", ""))
            if len(matrix) != 6:
                matrix = [1, 0, 0, 1, 0, 0]
            x = y = 0.0
            for code in item.iterfind("{*}TextCode"):
                x, y = float(code.get("X") or x), float(code.get("Y") or y)
                yield from _of_code(code, (left, top, x, y), size, matrix)


def _of_code(
    code: ElementTree.Element,
    place: tuple[float, float, float, float],
    size: float,
    matrix: list[float],
) -> Iterator[ScannedWord]:
    """Yield the words of a run of letters; ``matrix`` is the object's own."""
    text = code.text or ""
    left, top, x, y = place
    steps = _steps(code.get("DeltaX", ""), len(text))
    a, b, c, d, e, f = matrix
    scale = math.hypot(a, b) or 1.0
    high = size * (math.hypot(c, d) or 1.0)
    starts = [x]
    for at in range(len(text)):
        wide = size if text[at] > "\u2e7f" else size / 2
        starts.append(starts[-1] + (steps[at] if at < len(steps) else wide))
    for match in _WORD.finditer(text):
        begin, end = starts[match.start()], starts[match.end() - 1]
        last = text[match.end() - 1]
        end += size if last > "\u2e7f" else size / 2
        x0, y0 = left + a * begin + c * y + e, top + b * begin + d * y + f
        low = y0 + (1 - _TALL) * high
        yield ScannedWord(
            match[0],
            x0 * _MM,
            (low - high) * _MM,
            (x0 + (end - begin) * scale) * _MM,
            low * _MM,
            1.0,
        )


def _numbers(text: str) -> list[float]:
    return [float(one) for one in text.split()[:10]]


def _steps(text: str, n: int) -> list[float]:
    """Return how far it is from letter to letter; ``g 8 4`` is eight times 4."""
    steps: list[float] = []
    parts = text.split()
    at = 0
    while at < len(parts) and len(steps) < n:
        if parts[at] == "g":
            steps += [float(parts[at + 2])] * min(int(float(parts[at + 1])), n)
            at += 3
        else:
            steps.append(float(parts[at]))
            at += 1
    return steps
