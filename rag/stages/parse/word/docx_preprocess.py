"""Word file preprocessing: automatic numbers and page breaks written out as text.

Labels go before their paragraphs, a mark to where Word last broke a page; the table of contents
and pictures are left out, formulas (OMML, [ECMA-376] 22.1) become one line: a/(b+1). The file is
walked once and never held as a tree.
"""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree
from xml.parsers import expat
from xml.sax.saxutils import escape, unescape

from rag.core.documents import Notice
from rag.stages.parse.raised import raise_figures
from rag.stages.parse.relationships import main_part, read_relationships
from rag.stages.parse.word.cells import CellMarks
from rag.stages.parse.word.docx_numbering import Numbering, Style, read_numbering, read_styles
from rag.stages.parse.word.forms import FormFields
from rag.stages.parse.word.symbols import symbol_sign, symbol_text

_PARTS = {"num": "", "den": "/", "sup": "^", "sub": "_", "rad": "√", "d": "", "deg": ""}
_NUMBERED = re.compile(rb"<((?:\w+:)?)numPr\b[^>]*?(?:/>|>.*?</\1numPr>)", re.S)
# No document holds it; parsers drop private and control characters, which would be shorter.
PAGE_MARK = "␌⟐␌"
# In place of content that was inserted from another file, with its relationship.
CHUNK_MARK = re.compile(r"␌⊕(\S*)⟐")
# Behind a picture, with its relationship.
PICTURE_MARK = re.compile(r"␌▣(\w{1,40})⟐")
# Before an item of a list, with its depth: parsers know lists by their own, other, rules.
ITEM_MARK = re.compile(r"␌([0-8])⟐")
MAX_BODY = 64 * 1024**2
_PAGES = re.compile(rb"<(?:\w+:)?Pages>(\d{1,6})</")
_TEXT = re.compile(rb"<(?:\w+:)?t(?:\s[^>]*)?>([^<]*)")
# What was moved away stands where it went; marks of notes would be text in brackets.
_UNSEEN = frozenset({"moveFrom", "commentReference", "footnoteReference", "endnoteReference"})
# What is written out at its end.
_WITH_SIGNS = frozenset(
    {"sym", "altChunk", "vMerge", "tc", "tbl", "r", "drawing", "pict", "object"}
)
_PREFIX = re.compile(rb"<((?:[\w.-]+:)?)")


class _Speller:
    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self._is_text = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        self._is_text = name == "t"
        if name in _PARTS:
            self.texts.append("")
        elif name in ("nary", "chr"):
            # A sum or a product says so; without a word it is an integral.
            sign = next((v for key, v in attributes.items() if key.endswith("val")), "∫")
            self.texts[-1] = self.texts[-1].removesuffix("∫") + sign

    def end(self, tag: str) -> None:
        name = tag.rpartition(":")[2]
        self._is_text = False
        if name in _PARTS:
            text = self.texts.pop()
            is_bare = name in ("num", "den", "sup", "sub") and (len(text) == 1 or text.isalnum())
            if text:
                self.texts[-1] += _PARTS[name] + (text if is_bare else f"({text})")

    def data(self, text: str) -> None:
        if self._is_text:
            self.texts[-1] += text


def linearize_formula(xml: bytes) -> str:
    """Return the formulas within an element on one line; raises ExpatError."""
    speller = _Speller()
    # It is cut out of a document: nothing declares its prefixes.
    parser = expat.ParserCreate()
    parser.StartElementHandler = speller.start
    parser.EndElementHandler = speller.end
    parser.CharacterDataHandler = speller.data
    parser.Parse(xml, True)
    return speller.texts[0]


def pack_docx(bundle: zipfile.ZipFile, main: str, body: bytes) -> bytes:
    """Return the package with this body as word/document.xml, without pictures."""
    old, new = PurePosixPath(main).name.encode(), b"document.xml"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as package:
        for member in bundle.infolist():
            name = member.filename
            if name == main:
                package.writestr("word/document.xml", body)
            elif PurePosixPath(name).name == "styles.xml":
                package.writestr(name, _NUMBERED.sub(b"", bundle.read(name)))
            elif name in ("[Content_Types].xml", "_rels/.rels"):
                package.writestr(name, bundle.read(name).replace(old, new))
            elif name.endswith(f"_rels/{PurePosixPath(main).name}.rels"):
                package.writestr("word/_rels/document.xml.rels", bundle.read(name))
            elif name.endswith((".xml", ".rels")) and "/embeddings/" not in name:
                package.writestr(member, bundle.read(name))
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class PreprocessedDocx:
    """The rewritten file, heading levels by style name, and what was found on the way."""

    data: bytes
    heading_levels: dict[str, int]
    has_pages: bool
    warnings: tuple[Notice, ...]
    pictures: dict[str, str] = field(default_factory=dict)


def preprocess_docx(path: Path) -> PreprocessedDocx:
    """Return the document as it is shown; raises ValueError or LookupError when malformed."""
    with zipfile.ZipFile(path) as bundle:
        parts = set(bundle.namelist())
        main = main_part(bundle, "word/document.xml")
        folder = str(PurePosixPath(main).parent)
        body = bundle.read(main)
        styles_part, numbering_part = f"{folder}/styles.xml", f"{folder}/numbering.xml"
        try:
            styles = read_styles(bundle.read(styles_part)) if styles_part in parts else {}
            numbering = (
                read_numbering(bundle.read(numbering_part))
                if numbering_part in parts
                else Numbering()
            )
            walk = _Walk(styles, numbering)
            if len(body) <= MAX_BODY:
                walk.read(body)
            else:
                walk.warnings.append(
                    Notice("The document is too large to compute its automatic numbers.")
                )
        except (ElementTree.ParseError, expat.ExpatError) as error:
            raise ValueError(str(error)) from error
        has_pages = 0 < walk.n_breaks == _n_pages(bundle, parts) - 1
        edited = _apply(body, walk.edits, with_pages=has_pages)
        data = pack_docx(bundle, main, edited)
        links = read_relationships(bundle, main).items() if walk.has_pictures else ()
        pictures = {which: link.member for which, link in links if link.kind == "image"}
    levels = {style.name: style.level for style in styles.values() if style.level}
    return PreprocessedDocx(data, levels, has_pages, tuple(walk.warnings), pictures)


@dataclass(frozen=True, slots=True)
class _Edit:
    start: int
    end: int
    text: bytes
    is_page: bool = False


@dataclass(slots=True)
class _Walk:
    """One pass over the body, collecting edits at byte positions."""

    styles: dict[str, Style]
    numbering: Numbering
    edits: list[_Edit] = field(default_factory=list)
    warnings: list[Notice] = field(default_factory=list)
    n_breaks: int = 0
    has_pictures: bool = False
    _open: list[str] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _own: dict[str, str] = field(default_factory=dict)
    _n_boxes: int = 0
    _n_contents: int = 0
    _hidden_run: int = -1
    _fields: FormFields = field(default_factory=FormFields)
    _cells: CellMarks = field(default_factory=CellMarks)
    # Of the run that is read: its font, whether it is raised, and what a form shows behind it.
    _run_has: dict[str, str] = field(default_factory=dict)
    _body: bytes = b""
    _parser: expat.XMLParserType | None = None

    def read(self, body: bytes) -> None:
        self._body = body
        self._parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.Parse(body, True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(" ")[2]
        at = self._parser.CurrentByteIndex if self._parser else 0
        parent = self._open[-1] if self._open else ""
        self._open.append(tag)
        self._starts.append(at)
        self._start_form(tag, attributes, parent)
        if tag == "p":
            self._own = {}
        elif tag == "pStyle" and self._open[-3:-1] == ["p", "pPr"]:
            self._own["style"] = _val(attributes)
        elif tag in ("numId", "ilvl") and self._open[-4:-1] == ["p", "pPr", "numPr"]:
            self._own[tag] = _val(attributes)
        elif tag in ("del", "moveFrom") and self._open[-4:-1] == ["p", "pPr", "rPr"]:
            self._own["gone"] = "yes"
        elif tag == "vanish" and self._open[-3:-1] == ["r", "rPr"]:
            if _val(attributes) not in ("0", "false", "off"):
                self._hidden_run = self._starts[-3]
        elif tag == "br":
            self._own["br"] = next((v for k, v in attributes.items() if k.endswith(" type")), "")
        elif tag == "txbxContent":
            self._n_boxes += 1
        elif tag == "lastRenderedPageBreak" and not self._n_boxes and parent == "r":
            self.n_breaks += 1
        elif tag == "docPartGallery" and _val(attributes) == "Table of Contents":
            self._n_contents = max(self._n_contents, self._open.count("sdt"))

    def _start_form(self, tag: str, attributes: dict[str, str], parent: str) -> None:
        """Note what cells, fields and runs are, beside their text."""
        value = _val(attributes)
        self._cells.start(tag, value, parent)
        self._fields.note(tag, value, parent)
        if tag == "r":
            self._run_has = {}
        elif tag == "fldChar":
            kind = next((v for k, v in attributes.items() if k.endswith("fldCharType")), "")
            self._run_has["shown"] = self._fields.mark(kind)
        elif tag == "rFonts" and self._open[-3:-1] == ["r", "rPr"]:
            self._run_has["font"] = next(
                (v for k, v in attributes.items() if k.endswith((" ascii", " hAnsi"))), ""
            )
        elif tag == "vertAlign" and self._open[-3:-1] == ["r", "rPr"]:
            self._run_has["position"] = value
        elif tag in ("blip", "imagedata") and "Fallback" not in self._open:
            which = next((v for k, v in attributes.items() if k.endswith((" embed", "s id"))), "")
            self._run_has["picture"] = which
        elif tag in ("sym", "altChunk"):
            self._run_has |= {key.rpartition(" ")[2]: v for key, v in attributes.items()}

    def _end(self, name: str) -> None:
        tag = self._open.pop()
        start = self._starts.pop()
        at = self._parser.CurrentByteIndex if self._parser else 0
        parent = self._open[-1] if self._open else ""
        if tag == "pPr" and parent == "p":
            self._label(self._end_of(start, at))
        elif tag == "numPr" and self._open[-2:] == ["p", "pPr"]:
            self.edits.append(_Edit(start, self._end_of(start, at), b""))
        elif tag == "p":
            style = self.styles.get(self._own.get("style", ""), Style())
            if style.is_contents:
                self._remove(start, at)
            self._own = {}
        elif tag in _UNSEEN or (tag == "r" and start == self._hidden_run):
            self._remove(start, at, is_within="p" in self._open)
        elif tag == "oMathPara" or (tag == "oMath" and parent != "oMathPara"):
            self._remove(start, at, is_within=True)
            end = self._end_of(start, at)
            text = self._run(escape(linearize_formula(self._body[start:end])), self._starts[-1])
            self.edits.append(_Edit(end, end, text))
        elif tag in ("t", "cr", "br", "rt", "rubyBase"):
            self._end_text(tag, start, at)
        elif tag in _WITH_SIGNS:
            self._end_form(tag, start, at)
        elif tag == "lastRenderedPageBreak" and parent == "r" and not self._n_boxes:
            prefix = self._prefix(start)
            text = f"<{prefix}t>{PAGE_MARK}</{prefix}t>".encode()
            self.edits.append(_Edit(start, self._end_of(start, at), text, is_page=True))
        elif tag == "txbxContent":
            self._n_boxes -= 1
        elif tag == "sdt" and self._n_contents and self._open.count("sdt") < self._n_contents:
            self._n_contents = 0
            self._remove(start, at)

    def _end_text(self, tag: str, start: int, at: int) -> None:
        """Keep words apart that only a page or a column parts, and whole that have a reading."""
        prefix, end = self._prefix(start), self._end_of(start, at)
        if tag == "t":
            self._own["text"] = "yes"
            self._fields.note_text()
            self._end_run_text(start, at)
        elif tag == "rt":
            self._own["reading"] = b"".join(_TEXT.findall(self._body, start, at)).decode()
            self._remove(start, at, is_within=True)
        elif tag == "rubyBase":
            if reading := self._own.pop("reading", ""):
                self.edits.append(_Edit(at, at, self._run(f"({reading})", start)))
        elif tag == "cr" or (self._own["br"] in ("page", "column") and "text" in self._own):
            self.edits.append(_Edit(start, end, f"<{prefix}br/>".encode()))

    def _end_run_text(self, start: int, at: int) -> None:
        """Write signs of symbol fonts, and raised figures, as what they show."""
        font, position = (self._run_has.get(name, "") for name in ("font", "position"))
        if not font and not position:
            return
        begin = self._body.find(b">", start) + 1
        text = unescape(self._body[begin:at].decode("utf-8", "replace"))
        shown = raise_figures(symbol_text(font, text), position)
        if shown != text:
            self.edits.append(_Edit(begin, at, escape(shown).encode()))

    def _end_form(self, tag: str, start: int, at: int) -> None:
        """Write out ticks, choices and the marks of cells and of foreign content."""
        prefix, end = self._prefix(start), self._end_of(start, at)
        if tag == "sym":
            sign = symbol_sign(self._run_has.get("font", ""), self._run_has.get("char", ""))
            text = f'<{prefix}t xml:space="preserve">{escape(sign)}</{prefix}t>'
            self.edits.append(_Edit(start, end, text.encode()))
        elif tag == "altChunk":
            mark = self._run(escape(f"␌⊕{self._run_has.get('id', '')}⟐"), start)
            self.edits.append(_Edit(start, end, _paragraph(prefix, mark)))
        elif tag == "r" and (shown := self._run_has.pop("shown", "")):
            self.edits.append(_Edit(end, end, self._run(escape(shown), start)))
        elif tag in ("drawing", "pict", "object") and (which := self._run_has.pop("picture", "")):
            self.has_pictures = True
            self.edits.append(_Edit(end, end, f"<{prefix}t>␌▣{which}⟐</{prefix}t>".encode()))
        elif tag == "vMerge" and self._cells.is_outermost:
            # Parsers leave out what stands in a cell that goes on from above, the mark too.
            self.edits.append(_Edit(start, end, b""))
        elif tag in ("tc", "tbl"):
            mark_text = self._cells.end(tag)
            if mark_text and self._body.startswith(b"</", at):
                mark = _paragraph(prefix, self._run(mark_text, start))
                self.edits.append(_Edit(at, at, mark))

    def _label(self, at: int) -> None:
        style_id = self._own.get("style", "")
        style = self.styles.get(style_id, Style())
        number_id = self._own.get("numId", style.number_id)
        is_unseen = "Fallback" in self._open or "gone" in self._own or style.is_contents
        if not number_id or number_id == "0" or is_unseen:
            return
        depth = int(self._own.get("ilvl") or style.depth)
        by_style = style_id if "numId" not in self._own and "ilvl" not in self._own else ""
        label = self.numbering.next_label(number_id, depth, by_style)
        if not label and self.numbering.is_bullet(number_id, depth):
            label = "- "
        if label:
            label = label if style.level else f"␌{min(8, depth)}⟐{label}"
            self.edits.append(_Edit(at, at, self._run(escape(label), self._starts[-1])))

    def _remove(self, start: int, end_tag: int, *, is_within: bool = False) -> None:
        n_marks = 0
        while self.edits and self.edits[-1].start >= start:
            n_marks += self.edits.pop().is_page
        if n_marks:  # The pages that it filled still count.
            prefix = self._prefix(start)
            mark = self._run(PAGE_MARK, self._starts[-1] if is_within else start)
            mark = mark if is_within else _paragraph(prefix, mark)
            self.edits += [_Edit(start, start, mark, is_page=True)] * n_marks
        self.edits.append(_Edit(start, self._end_of(start, end_tag), b""))

    def _run(self, text: str, beside: int) -> bytes:
        """Return a run of escaped text, in the namespace of the element that begins there."""
        prefix = self._prefix(beside)
        text = f'<{prefix}t xml:space="preserve">{text}</{prefix}t>'
        return f"<{prefix}r>{text}</{prefix}r>".encode()

    def _end_of(self, start: int, end_tag: int) -> int:
        """Return where an element ends; of an empty one expat tells no end tag."""
        end = self._body.find(b">", start) + 1
        is_empty = self._body[end - 2 : end - 1] == b"/"
        return end if is_empty else self._body.find(b">", end_tag) + 1

    def _prefix(self, at: int) -> str:
        match = _PREFIX.match(self._body, at)
        return match[1].decode() if match else "w:"


def _paragraph(prefix: str, run: bytes) -> bytes:
    return f"<{prefix}p>".encode() + run + f"</{prefix}p>".encode()


def _val(attributes: dict[str, str]) -> str:
    return next((v for key, v in attributes.items() if key.rpartition(" ")[2] == "val"), "")


def _n_pages(bundle: zipfile.ZipFile, parts: set[str]) -> int:
    match = _PAGES.search(bundle.read("docProps/app.xml")) if "docProps/app.xml" in parts else None
    return int(match[1]) if match else 0


def _apply(body: bytes, edits: list[_Edit], *, with_pages: bool) -> bytes:
    out, position = [], 0
    for edit in edits:
        if edit.is_page and not with_pages:
            continue
        out += [body[position : edit.start], edit.text]
        position = edit.end
    return b"".join([*out, body[position:]])
