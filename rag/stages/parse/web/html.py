"""Parser for HTML: the visible text of a page in blocks.

Written for completeness: text outside of any block counts, markup that is never shown does not.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from rag.core.documents import ParsedDocument
from rag.stages.detect.decode import decode_declared, decode_text, keeps_ascii
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.column_bands import table_texts
from rag.stages.parse.raised import raise_figures
from rag.stages.parse.table_grid import TableGrid

_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]{2,40})""", re.I)
_SPACE = re.compile(r"[ \t\r\n\f]+")
_AROUND_BREAK = re.compile(r" *\n *")
_BREAKS = frozenset(
    {"p", "div", "section", "article", "header", "footer", "main", "aside", "nav", "ul", "ol"}
    | {"li", "dl", "dt", "dd", "blockquote", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "table"}
    | {"tr", "td", "th", "caption", "figure", "figcaption", "form", "fieldset", "address", "hr"}
    | {"body", "html", "details", "summary", "center", "textarea", "legend", "thead", "tbody"}
    | {"tfoot"}
)
_UNSEEN = frozenset(
    {"script", "style", "template", "noscript", "svg", "select", "datalist"} | {"iframe", "object"}
)
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta"}
    | {"source", "track", "wbr"}
)
_UNCLOSED = frozenset(
    {"p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot"} | {"html", "body"}
)
_RUBY = frozenset({"ruby", "rb", "rt", "rtc", "rp"})
_RAISED = {"sup": "superscript", "sub": "subscript"}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
# A cell of this length is a part of the page's layout, and so is one of few with a table inside.
LONG_CELL = 600
_FEW_ROWS = 3
# Tables that are nested deeper are text of their cells.
_MAX_TABLES = 8
# What begins in place of an element whose end tag is left out.
_FOLLOWING = {
    **dict.fromkeys(("td", "th"), frozenset({"td", "th", "tr", "tbody", "thead", "tfoot"})),
    "tr": frozenset({"tr", "tbody", "thead", "tfoot"}),
    "li": frozenset({"li"}),
    **dict.fromkeys(("dt", "dd"), frozenset({"dt", "dd"})),
    "p": _BREAKS,
}


def parse_html(path: Path, name: str, encoding: str = "") -> ParsedDocument:
    """Return the page's text; raise DocumentError when it cannot be decoded."""
    text, found = decode_html(path.read_bytes(), name, encoding)
    canonical = CanonicalText()
    title = add_html(text, canonical)
    return canonical.finish("html", "html/3", encoding=found, title=title)


def decode_html(data: bytes, name: str, encoding: str = "") -> tuple[str, str]:
    """Return text and encoding; a declared encoding is taken where the bytes agree with it."""
    if encoding:
        return decode_text(data, name, encoding)
    found = _DECLARED.search(data[:4096])
    label = found[1].decode("ascii") if found else ""
    # What could be found is written in ASCII, whatever it says.
    return decode_declared(data, name, label if keeps_ascii(label) else "")


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
        self._grids: list[TableGrid] = []
        self._ruby, self._readings = "", list[str]()
        self._n_level = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self._unseen:
            self._in_title = not self.title
            return
        if self._unseen and tag in _FOLLOWING.get(self._unseen[0], ()):
            is_within = any(inner in ("ul", "ol", "dl", "table") for inner in self._unseen[1:])
            self._unseen = self._unseen if is_within else []
        # What may lack its end tag, and is not known to end otherwise, would hide all that follows.
        can_hide = tag in _FOLLOWING or (tag not in _VOID and tag not in _UNCLOSED)
        if self._unseen or tag in _UNSEEN or (can_hide and _is_hidden(attrs)):
            if tag in _BREAKS and not self._unseen:
                self._flush()
            if tag not in _VOID:
                self._unseen.append(tag)
            return
        if tag == "br":
            self._text.append("\n")
        elif tag == "img" and (alt := dict(attrs).get("alt")):
            self._text.append(f" {alt} ")
        if tag in _BREAKS:
            self._flush()
        if tag in _HEADINGS and not self._n_tables:
            self._end_list()
            self._kind, self._level = "heading", _HEADINGS[tag]
        elif tag == "pre":
            self._n_pre += 1
        elif tag in ("ul", "ol"):
            self._lists.append(_number(dict(attrs).get("start")) if tag == "ol" else None)
        elif tag == "li":
            self._item = self._next_mark()
        elif tag == "table":
            self._end_list()
            self._n_tables += 1
            if self._n_tables <= _MAX_TABLES:
                self._grids.append(TableGrid())
        elif tag in ("tr", "td", "th") and self._n_tables == len(self._grids) > 0:
            self._begin_cell(tag, dict(attrs))
        elif tag in _RUBY:
            self._ruby = tag
        elif tag in _RAISED:
            self._n_level = len(self._text)

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if self._unseen:
            if tag in self._unseen:
                while self._unseen.pop() != tag:
                    pass
                return
            if self._unseen[0] not in _FOLLOWING or tag not in _BREAKS:
                return
            self._unseen = []  # What it stands in ends.
        if tag in _BREAKS:
            self._flush()
        if tag in _HEADINGS:
            self._kind, self._level = "paragraph", 0
        elif tag in _RAISED:
            self._end_raised(_RAISED[tag])
        elif tag in _RUBY:
            self._end_reading(is_last=tag == "ruby")
        elif tag == "pre":
            self._n_pre = max(0, self._n_pre - 1)
        elif tag in ("ul", "ol") and self._lists:
            self._lists.pop()
            if not self._lists:
                self._end_list()
        elif tag == "table" and self._n_tables:
            if self._n_tables == len(self._grids):
                self._end_table()
            self._n_tables -= 1

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._unseen and self._ruby != "rp":
            text = self._readings if self._ruby in ("rt", "rtc") else self._text
            text.append(data if self._n_pre else _SPACE.sub(" ", data))

    def flush_all(self) -> None:
        """Put out what no closing tag has ended."""
        self._flush()
        self._end_list()
        while self._grids:
            self._end_table()

    def _end_raised(self, position: str) -> None:
        """Write figures as they are shown: ten to the second is no 102."""
        raised = "".join(self._text[self._n_level :])
        if (shown := raise_figures(raised, position)) != raised:
            self._text[self._n_level :] = [shown.strip()]

    def _end_reading(self, *, is_last: bool) -> None:
        """Put what is printed above characters behind them, so that their word stays whole."""
        self._ruby = ""
        if is_last and self._readings:
            self._text.append(f"({''.join(self._readings).strip()})")
            self._readings = []

    def _flush(self) -> None:
        self._end_reading(is_last=True)
        text, self._text = "".join(self._text), []
        if not self._n_pre:
            text = _AROUND_BREAK.sub("\n", re.sub(" {2,}", " ", text)).strip()
        if not text.strip():
            return
        if self._grids and self._grids[-1].add_text(text):
            return
        if self._lists and not self._n_pre:
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

    def _begin_cell(self, tag: str, found: dict[str, str | None]) -> None:
        if tag == "tr":
            self._grids[-1].begin_row()
            return
        width, height = _number(found.get("colspan")), _number(found.get("rowspan"))
        self._grids[-1].begin_cell(width, height, is_head=tag == "th")

    def _end_table(self) -> None:
        blocks = _table_blocks(self._grids.pop())
        if not self._grids or not self._grids[-1].add_inner(blocks):
            for block in blocks:
                self.canonical.add(*block)


def _table_blocks(grid: TableGrid) -> list[tuple[str, str, int]]:
    """Return a table and those within it, or what stands in the cells of a page's layout."""
    n_head = grid.finish()
    inner = [block for blocks in grid.inner.values() for block in blocks]
    is_layout = max(map(len, grid.rows), default=0) == 1 or bool(
        inner and len(grid.rows) < _FEW_ROWS
    )
    if is_layout or any(len(cell) > LONG_CELL for row in grid.rows for cell in row):
        out: list[tuple[str, str, int]] = []
        for number, row in enumerate(grid.rows):
            for column, cell in enumerate(row):
                out += [("paragraph", cell, 0)] if cell else []
                out += grid.inner.get((number, column), [])
        return out
    rows = [row for row in grid.rows if any(row)]
    if not rows:
        return inner
    level = n_head if n_head > 1 else 0
    return [*(("table", text, level) for text in table_texts(rows, max(1, n_head))), *inner]


def _number(value: str | None) -> int:
    return int(value) if value and value.isdecimal() and len(value) < 9 else 1


def _is_hidden(attrs: list[tuple[str, str | None]]) -> bool:
    found = dict(attrs)
    style = (found.get("style") or "").replace(" ", "").lower()
    return "hidden" in found or "display:none" in style or "visibility:hidden" in style
