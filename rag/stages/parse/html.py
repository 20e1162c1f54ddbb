"""HTML. In: bytes or text of a page. Out: its visible text in blocks.

Written for completeness: text outside of any block counts, markup that is never shown does not.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from rag.core.documents import ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.decode import decode_text
from rag.stages.parse.canonical import CanonicalText

_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]{2,40})""", re.I)
_SUPERSETS = {"gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs",
              "iso-8859-1": "cp1252", "latin-1": "cp1252"}  # fmt: skip
_SPACE = re.compile(r"[ \t\r\n\f]+")
_AROUND_BREAK = re.compile(r" *\n *")
_BREAKS = frozenset(
    {"p", "div", "section", "article", "header", "footer", "main", "aside", "nav", "ul", "ol"}
    | {"li", "dl", "dt", "dd", "blockquote", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "table"}
    | {"tr", "td", "th", "caption", "figure", "figcaption", "form", "fieldset", "address", "hr"}
    | {"body", "html", "details", "summary", "center", "textarea", "legend", "thead", "tbody"}
    | {"tfoot"}
)
_UNSEEN = frozenset({"script", "style", "template", "noscript", "svg", "select", "datalist"}
                    | {"iframe", "object"})  # fmt: skip
_VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta"}
                  | {"source", "track", "wbr"})  # fmt: skip
_UNCLOSED = frozenset({"p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot"}
                      | {"html", "body"})  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
# A cell of this length is a part of the page's layout.
LONG_CELL = 600


def parse_html(path: Path, name: str, encoding: str = "") -> ParsedDocument:
    """Return the page's text; raise DocumentError when it cannot be decoded."""
    text, found = decode_html(path.read_bytes(), name, encoding)
    canonical = CanonicalText()
    title = add_html(text, canonical)
    return canonical.finish("html", "html/1", encoding=found, title=title)


def decode_html(data: bytes, name: str, encoding: str = "") -> tuple[str, str]:
    """Return text and encoding; a declared encoding is taken where the bytes agree with it."""
    declared = _DECLARED.search(data[:4096])
    if not encoding and declared and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        codec = declared[1].decode("ascii").lower()
        try:
            return decode_text(data, name, _SUPERSETS.get(codec, codec))
        except DocumentError:
            pass  # It lies: the cascade decides.
    return decode_text(data, name, encoding)


def add_html(text: str, canonical: CanonicalText) -> str:
    """Add the page's visible blocks to ``canonical`` and return its title."""
    reader = _Reader(canonical)
    reader.feed(text)
    reader.close()
    reader.flush_all()
    return reader.title


class _Reader(HTMLParser):
    def __init__(self, canonical: CanonicalText) -> None:
        super().__init__(convert_charrefs=True)
        self.canonical = canonical
        self.title = ""
        self._in_title = False
        self._unseen: list[str] = []
        self._text: list[str] = []
        self._kind, self._level, self._n_pre = "paragraph", 0, 0
        self._lists: list[int | None] = []
        self._item = ""
        self._items: list[str] = []
        self._n_tables = 0
        self._rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._in_title = not self.title
            return
        # What may lack its end tag would hide all that follows.
        can_hide = tag not in _VOID and tag not in _UNCLOSED
        if self._unseen or tag in _UNSEEN or (can_hide and _is_hidden(attrs)):
            if tag not in _VOID:
                self._unseen.append(tag)
            return
        if tag == "br":
            self._text.append("\n")
        elif tag == "img":
            self._text.append(dict(attrs).get("alt") or "")
        if tag in _BREAKS:
            self._flush()
        if tag in _HEADINGS and not self._n_tables:
            self._end_list()
            self._kind, self._level = "heading", _HEADINGS[tag]
        elif tag == "pre":
            self._n_pre += 1
        elif tag in ("ul", "ol"):
            start = dict(attrs).get("start") or "1"
            number = int(start) if start.isdigit() and len(start) < 9 else 1
            self._lists.append(number if tag == "ol" else None)
        elif tag == "li":
            self._item = self._next_mark()
        elif tag == "table":
            self._end_list()
            self._n_tables += 1
        elif tag == "tr" and self._n_tables == 1:
            self._rows.append([])
        elif tag in ("td", "th") and self._n_tables == 1:
            self._rows = self._rows or [[]]
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if self._unseen:
            if tag in self._unseen:
                del self._unseen[self._unseen.index(tag) :]
            return
        if tag in _BREAKS:
            self._flush()
        if tag in _HEADINGS:
            self._kind, self._level = "paragraph", 0
        elif tag == "pre":
            self._n_pre = max(0, self._n_pre - 1)
        elif tag in ("ul", "ol") and self._lists:
            self._lists.pop()
            if not self._lists:
                self._end_list()
        elif tag == "table" and self._n_tables:
            self._n_tables -= 1
            if not self._n_tables:
                self._end_table()

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._unseen:
            self._text.append(data if self._n_pre else _SPACE.sub(" ", data))

    def flush_all(self) -> None:
        """Put out what no closing tag has ended."""
        self._flush()
        self._end_list()
        self._end_table()

    def _flush(self) -> None:
        text, self._text = "".join(self._text), []
        if not self._n_pre:
            text = _AROUND_BREAK.sub("\n", re.sub(" {2,}", " ", text)).strip()
        if not text.strip():
            return
        if self._n_tables and self._rows and self._rows[-1]:
            self._rows[-1][-1] = f"{self._rows[-1][-1]}\n{text}".strip()
        elif self._lists and not self._n_pre:
            indent = "  " * (len(self._lists) - 1)
            mark, self._item = self._item or "  ", ""
            self._items.append(indent + mark + text.replace("\n", f"\n{indent}  "))
        else:
            self._end_list()
            self.canonical.add("code" if self._n_pre else self._kind, text, self._level)

    def _next_mark(self) -> str:
        if not self._lists or self._lists[-1] is None:
            return "- "
        number = self._lists[-1]
        self._lists[-1] = number + 1
        return f"{number}. "

    def _end_list(self) -> None:
        if self._items:
            self.canonical.add("list", "\n".join(self._items))
            self._items = []

    def _end_table(self) -> None:
        rows, self._rows = [row for row in self._rows if any(row)], []
        cells = [cell for row in rows for cell in row]
        if max(map(len, rows), default=0) == 1 or any(len(cell) > LONG_CELL for cell in cells):
            for cell in cells:
                self.canonical.add("paragraph", cell)
        elif rows:
            self.canonical.add("table", "\n".join(map(table_row, rows)))


def table_row(cells: list[str]) -> str:
    """Return one line for a row; line ends within cells become spaces."""
    return "| " + " | ".join(_SPACE.sub(" ", cell).strip() for cell in cells) + " |"


def _is_hidden(attrs: list[tuple[str, str | None]]) -> bool:
    found = dict(attrs)
    style = (found.get("style") or "").replace(" ", "").lower()
    return "hidden" in found or "display:none" in style
