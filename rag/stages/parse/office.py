"""Word, PowerPoint, Excel. In: a file. Out: a parsed document with numbers, slides and sheets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from rag.core.documents import ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.docx_edit import ITEM_MARK, PAGE_MARK, edit_docx
from rag.stages.parse.html import table_row
from rag.stages.parse.xberg_nodes import Node, OfficeContent, read_office

PARSER = "xberg/2"
_FOOTNOTE_MARK = re.compile(r"\[\^\d+\]")
# Longer paragraphs in a heading's style are no titles.
MAX_HEADING = 200
_MARGINS = ("header", "footer")


def parse_office(path: Path, name: str, kind: str) -> ParsedDocument:
    """Return the text of a docx, pptx or xlsx; raise DocumentError saying why not."""
    return {"docx": _docx, "pptx": _pptx, "xlsx": _xlsx}[kind](path, name)


def add_nodes(canonical: CanonicalText, nodes: Iterable[Node], *, number_lists: bool) -> None:
    """Add blocks in order; headers and footers come once, after the body."""
    nodes = list(nodes)
    body = [node for node in nodes if node.layer not in _MARGINS]
    for kind, group in groupby(body, key=lambda node: node.kind):
        if kind == "list":
            canonical.add("list", _list_text(list(group), number_lists))
            continue
        for node in group:
            text = "\n".join(map(table_row, map(list, node.rows))) if node.rows else node.text
            canonical.add(kind, text, node.level)
    margins = (" ".join(node.text.split()) for node in nodes if node.layer in _MARGINS)
    for text in dict.fromkeys(margins):
        canonical.add("paragraph", text)


def _docx(path: Path, name: str) -> ParsedDocument:
    try:
        edited = edit_docx(path)
    except (ValueError, KeyError) as error:
        raise DocumentError(
            "“{name}” is damaged or not what its content claims.",
            hint="Open it, save it anew and upload that.", name=name,
        ) from error  # fmt: skip
    content = read_office(edited.data, "docx", name)
    nodes = [_as_shown(node, edited.heading_levels) for node in content.nodes]
    canonical = _begin(content)
    canonical.warnings += edited.warnings
    if edited.has_pages:
        pages = _pages_at_marks(nodes)
        for number, page in enumerate(pages, start=1):
            canonical.start_page(str(number))
            add_nodes(canonical, page, number_lists=False)
    else:
        add_nodes(canonical, nodes, number_lists=False)
    return canonical.finish("docx", PARSER, title=content.title or _first_heading(nodes))


def _as_shown(node: Node, levels: dict[str, int]) -> Node:
    """Return the node with its marks read: a heading by its style, an item by its list."""
    if node.rows:
        rows = (tuple(ITEM_MARK.sub("", cell) for cell in row) for row in node.rows)
        return replace(node, rows=tuple(rows))
    mark = ITEM_MARK.search(node.text)
    text = _FOOTNOTE_MARK.sub("", ITEM_MARK.sub("", node.text))
    if node.style in levels and len(text) <= MAX_HEADING:
        return replace(node, kind="heading", level=levels[node.style], text=text)
    if mark and node.layer == "body":
        # Its label is in the text already.
        return replace(node, kind="list", text=text, depth=int(mark[1]), is_ordered=True)
    return replace(node, text=text)


def _pages_at_marks(nodes: Sequence[Node]) -> list[list[Node]]:
    """Cut the nodes where Word broke pages: in a paragraph there, in a table before the row."""
    pages: list[list[Node]] = [[]]
    for node in nodes:
        if node.rows:
            rows: list[tuple[str, ...]] = []
            for row in node.rows:
                n_marks = sum(cell.count(PAGE_MARK) for cell in row)
                if n_marks and rows:
                    pages[-1].append(replace(node, rows=tuple(rows)))
                    rows = []
                pages += [[] for _ in range(n_marks)]
                rows.append(tuple(cell.replace(PAGE_MARK, "") for cell in row))
            pages[-1].append(replace(node, rows=tuple(rows)))
            continue
        first, *rest = node.text.split(PAGE_MARK)
        if node.kind == "heading":  # A title is never torn.
            pages += [[] for _ in rest]
            pages[-1].append(replace(node, text="".join([first, *rest])))
            continue
        pages[-1] += [replace(node, text=first)] if first.strip() else []
        pages += [[replace(node, text=text)] if text.strip() else [] for text in rest]
    return pages


def _pptx(path: Path, name: str) -> ParsedDocument:
    content = read_office(path.read_bytes(), "pptx", name)
    canonical = _begin(content)
    last = max((node.page or 1 for node in content.nodes), default=0)
    for number in range(1, last + 1):
        slide = [node for node in content.nodes if (node.page or 1) == number]
        canonical.start_page(_first_heading(slide))
        add_nodes(canonical, slide, number_lists=True)
    return canonical.finish("pptx", PARSER, title=content.title)


def _xlsx(path: Path, name: str) -> ParsedDocument:
    content = read_office(path.read_bytes(), "xlsx", name)
    canonical = _begin(content)
    nodes = list(content.nodes)
    for sheet in content.sheets or ("",):
        canonical.start_page(sheet)
        if nodes and nodes[0].kind == "heading" and nodes[0].text == sheet:
            title = nodes.pop(0)
            is_end = _is_title_of(content.sheets)
            count = next((at for at, node in enumerate(nodes) if is_end(node)), len(nodes))
            own, nodes = nodes[:count], nodes[count:]
            own = [replace(node, rows=_without_copy(node.rows)) for node in own]
            if any(node.text.strip() or any(map(any, node.rows)) for node in own):
                add_nodes(canonical, [replace(title, level=1), *own], number_lists=False)
    add_nodes(canonical, nodes, number_lists=False)
    return canonical.finish("xlsx", PARSER, title=content.title)


def _is_title_of(sheets: Sequence[str]) -> Callable[[Node], bool]:
    return lambda node: node.kind == "heading" and node.text in sheets


def _without_copy(rows: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """Return the rows; the only row of a sheet comes twice, as header and as data."""
    stripped = [[cell.strip() for cell in row] for row in rows]
    return rows[:1] if len(rows) == 2 and stripped[0] == stripped[1] else rows


def _begin(content: OfficeContent) -> CanonicalText:
    canonical = CanonicalText()
    canonical.warnings += content.warnings
    return canonical


def _first_heading(nodes: Iterable[Node]) -> str:
    return next((node.text for node in nodes if node.kind == "heading"), "")


def _list_text(items: Sequence[Node], number_lists: bool) -> str:
    """Return the items one a line; Word's ordered ones carry their labels already."""
    lines, counts = [], dict[int, int]()
    for item in items:
        counts = {depth: n for depth, n in counts.items() if depth <= item.depth}
        counts[item.depth] = counts.get(item.depth, 0) + 1
        mark = "" if item.is_ordered else "- "
        if item.is_ordered and number_lists:
            mark = f"{counts[item.depth]}. "
        lines.append("  " * item.depth + mark + item.text.strip("\n"))
    return "\n".join(lines)
