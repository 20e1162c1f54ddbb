"""Parser for Word and PowerPoint through xberg, with numbers and slides."""

from __future__ import annotations

import asyncio
import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

from rag.core.documents import Notice, ParsedDocument
from rag.core.errors import DocumentError
from rag.core.ocr.scans import PageWords
from rag.stages.detect.file_errors import inconsistent_file
from rag.stages.detect.mime_type import MIME_TYPES
from rag.stages.parse.builtin_parser import NOTHING_RECOGNIZED
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.office.pictures import PictureWords
from rag.stages.parse.office.pptx_preprocess import preprocess_pptx
from rag.stages.parse.table_grid import table_row
from rag.stages.parse.word.cells import marked_rows
from rag.stages.parse.word.docx_preprocess import (
    CHUNK_MARK,
    ITEM_MARK,
    PAGE_MARK,
    PICTURE_MARK,
    preprocess_docx,
)
from rag.stages.parse.word.foreign import read_foreign

# What programs call pictures by themselves, and how xberg writes one of a slide.
_PICTURE_NAME = re.compile(
    r"!\[[^\]\n]*\]\(\.\./media/[^)\n]*\)"
    r"|(?:Picture|Image|Graphic|Bild|Grafik|图片|图像|圖片) ?\d{1,4}"
)
# Ten times what xberg allows: a price list has more than its hundred thousand.
MAX_CELLS = 1_000_000


@dataclass(frozen=True, slots=True)
class XbergNode:
    """One block: ``kind`` is heading, paragraph, list, table, code; ``rows`` are a table's cells.

    ``layer`` tells body from header, footer and footnote; a list's items have depth and order.
    A table's level is the number of its header rows; ``goes_on`` tells one that began on the page
    before.
    """

    kind: str
    text: str = ""
    level: int = 0
    rows: tuple[tuple[str, ...], ...] = ()
    page: int | None = None
    layer: str = "body"
    style: str = ""
    depth: int = 0
    is_ordered: bool = False
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class OfficeContent:
    """The nodes of a file, its title and what xberg complained about."""

    nodes: tuple[XbergNode, ...]
    title: str
    warnings: tuple[Notice, ...]


def read_office(data: bytes, kind: str, name: str) -> OfficeContent:
    """Return the content of an office file; raise DocumentError when it is damaged.

    xberg is given bytes only: it would fetch addresses. Its tree is read, not its Markdown, which
    escapes and marks up the text, so that quotes would not match what people see.
    """
    import xberg  # Half of the start-up time; a PDF or a text needs none of it.

    config = xberg.ExtractionConfig(
        disable_ocr=True,
        use_cache=False,
        output_format="markdown",
        include_document_structure=True,
        security_limits=xberg.SecurityLimits(max_table_cells=MAX_CELLS),
    )
    source = xberg.ExtractInput(
        kind=xberg.ExtractInputKind.BYTES,
        bytes=data,
        mime_type=MIME_TYPES[kind],
        filename=f"document.{kind}",
    )
    try:
        results = asyncio.run(xberg.extract(source, config)).results
    except (xberg.XbergError, RuntimeError, ValueError, OSError) as error:
        if "Security violation" in str(error):
            raise DocumentError(
                "“{name}” is too complex to be read.",
                hint="Split it, or save it anew in a simpler form.",
                name=name,
            ) from error
        raise inconsistent_file(name) from error
    result = results[0] if results else None
    if result is None or result.document is None:
        raise inconsistent_file(name)
    return OfficeContent(
        tuple(_nodes(result.document.nodes, has_slides=kind == "ppt")),
        result.metadata.title or "",
        tuple(
            Notice("Reading it gave the remark: {remark}", remark=warning.message)
            for warning in result.processing_warnings
        ),
    )


def _nodes(raw: Any, *, has_slides: bool) -> Iterator[XbergNode]:
    """Yield the blocks; a slide of its own begins with its title where pages are not told."""
    lists: dict[int, tuple[int, bool]] = {}
    slide = None
    for index, item in enumerate(raw):
        content = json.loads(str(item.content))
        kind = content["node_type"]
        attributes = item.attributes or {}
        common = {
            "page": item.page or slide,
            "layer": str(item.content_layer),
            "style": attributes.get("style_name", ""),
        }
        if kind == "slide" and has_slides:
            slide = int(content["number"])
            yield XbergNode("heading", content.get("title") or "", 2, page=slide)
        elif kind == "metadata_block":
            yield XbergNode("paragraph", _headers(content["entries"]), **common)
        elif kind == "list":
            depth = lists[item.parent][0] + 1 if item.parent in lists else 0
            lists[index] = (depth, bool(content.get("ordered")))
        elif kind == "list_item":
            depth, is_ordered = lists.get(item.parent, (0, False))
            yield XbergNode("list", content["text"], depth=depth, is_ordered=is_ordered, **common)
        elif kind == "heading":
            yield XbergNode("heading", content["text"], int(content["level"]), **common)
        elif kind == "table":
            yield XbergNode("table", rows=_rows(content["grid"]), **common)
        elif text := _shown_text(content):
            yield XbergNode("code" if kind == "code" else "paragraph", text, **common)


def _shown_text(content: dict[str, Any]) -> str:
    """Return the text of a block, empty for what only names a picture."""
    text = content.get("text") or content.get("description") or ""
    return "" if _PICTURE_NAME.fullmatch(text.strip()) else text


def _headers(entries: Sequence[dict[str, str]]) -> str:
    return "\n".join(f"{one['key']}: {one['value']}" for one in entries)


def _rows(grid: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    rows = [[""] * int(grid["cols"]) for _ in range(int(grid["rows"]))]
    for cell in grid["cells"]:
        rows[cell["row"]][cell["col"]] = cell["content"]
    return tuple(tuple(row) for row in rows)


PARSER = "xberg/4"
# Longer paragraphs in a heading's style are no titles.
MAX_HEADING = 200
_MARGINS = ("header", "footer")


def parse_office(
    path: Path, name: str, kind: str, recognized: Mapping[int, PageWords] = NOTHING_RECOGNIZED
) -> ParsedDocument:
    """Return the text of a docx or pptx; raise DocumentError saying why not.

    ``recognized`` are the words of its pictures.
    """
    with _damage_told(name):
        pictures = PictureWords(path, recognized)
    document = {"docx": _docx, "pptx": _pptx}[kind](path, name, pictures)
    return replace(document, warnings=(*document.warnings, *pictures.notices()))


def add_nodes(canonical: CanonicalText, nodes: Iterable[XbergNode], *, number_lists: bool) -> None:
    """Add blocks in order; headers and footers come once, after the body."""
    nodes = list(nodes)
    body = [node for node in nodes if node.layer not in _MARGINS]
    for kind, group in groupby(body, key=lambda node: node.kind):
        if kind == "list":
            canonical.add("list", _list_text(list(group), number_lists))
            continue
        for node in group:
            text = "\n".join(map(table_row, node.rows)) if node.rows else node.text
            canonical.add(kind, text, node.level, goes_on=node.goes_on)
    margins = (" ".join(node.text.split()) for node in nodes if node.layer in _MARGINS)
    for text in dict.fromkeys(margins):
        canonical.add("paragraph", text)


def _docx(path: Path, name: str, pictures: PictureWords) -> ParsedDocument:
    with _damage_told(name):
        edited = preprocess_docx(path)
    content = read_office(edited.data, "docx", name)
    nodes = [_as_shown(node, edited.heading_levels) for node in content.nodes]
    canonical = _begin(content)
    canonical.warnings += edited.warnings
    with _damage_told(name):
        nodes = list(_with_foreign(path, nodes, canonical.warnings))
    nodes = list(_with_pictures(nodes, edited.pictures, pictures))
    if edited.has_pages:
        pages = _pages_at_marks(nodes)
        for number, page in enumerate(pages, start=1):
            canonical.start_page(str(number))
            add_nodes(canonical, page, number_lists=False)
    else:
        add_nodes(canonical, nodes, number_lists=False)
    return canonical.finish("docx", PARSER, title=content.title or _first_heading(nodes))


def _with_foreign(
    path: Path, nodes: Sequence[XbergNode], warnings: list[Notice], *, is_within: bool = False
) -> Iterator[XbergNode]:
    """Yield the nodes with the content of inserted files in its place."""
    n_left_out = 0
    for node in nodes:
        mark = CHUNK_MARK.search(node.text)
        if mark is None:
            yield node
            continue
        with zipfile.ZipFile(path) as bundle:
            found = None if is_within else read_foreign(bundle, mark[1])
        if isinstance(found, ParsedDocument):
            for block in found.blocks:
                yield XbergNode(block.kind, found.text[block.start : block.end], block.level)
        else:
            inner = _inner_docx(found, warnings) if found is not None else []
            n_left_out += not inner
            yield from inner
    if n_left_out:
        warnings.append(Notice("Parts that were inserted as foreign content are not read."))


def _with_pictures(
    nodes: Sequence[XbergNode], members: Mapping[str, str], pictures: PictureWords
) -> Iterator[XbergNode]:
    """Yield the nodes, the words of pictures behind the paragraph or table that shows them."""
    for node in nodes:
        texts = [node.text, *chain.from_iterable(node.rows)]
        marks = [mark for text in texts for mark in PICTURE_MARK.findall(text)]
        if marks:
            rows = tuple(tuple(PICTURE_MARK.sub("", cell) for cell in row) for row in node.rows)
            node = replace(node, text=PICTURE_MARK.sub("", node.text), rows=rows)
        if node.text.strip() or node.rows or not marks:
            yield node
        for mark in marks:
            for kind, text in pictures.take(members.get(mark, "")):
                yield XbergNode(kind, text, layer=node.layer)


def _inner_docx(data: bytes, warnings: list[Notice]) -> list[XbergNode]:
    """Return what a Word file within another shows; nothing where it is damaged."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "part.docx"
        path.write_bytes(data)
        try:
            with _damage_told(path.name):
                edited = preprocess_docx(path)
            content = read_office(edited.data, "docx", path.name)
        except DocumentError:
            return []
        shown = [_as_shown(node, edited.heading_levels) for node in content.nodes]
        return [
            replace(
                node,
                text=node.text.replace(PAGE_MARK, ""),
                rows=tuple(tuple(c.replace(PAGE_MARK, "") for c in row) for row in node.rows),
            )
            for node in _with_foreign(path, shown, warnings, is_within=True)
        ]


def _as_shown(node: XbergNode, levels: dict[str, int]) -> XbergNode:
    """Return the node with its marks read: a heading by its style, an item by its list."""
    if node.rows:
        rows, n_head = marked_rows(
            [[ITEM_MARK.sub("", cell) for cell in row] for row in node.rows], PAGE_MARK
        )
        return replace(node, rows=rows, level=n_head if n_head > 1 else 0)
    mark = ITEM_MARK.search(node.text)
    text = ITEM_MARK.sub("", node.text)
    if node.style in levels and len(text) <= MAX_HEADING:
        return replace(node, kind="heading", level=levels[node.style], text=text)
    if mark and node.layer == "body":
        # Its label is in the text already.
        return replace(node, kind="list", text=text, depth=int(mark[1]), is_ordered=True)
    return replace(node, text=text)


def _pages_at_marks(nodes: Sequence[XbergNode]) -> list[list[XbergNode]]:
    """Cut the nodes where Word broke pages: in a paragraph there, in a table before the row."""
    pages: list[list[XbergNode]] = [[]]
    for node in nodes:
        if node.rows:
            rows: list[tuple[str, ...]] = []
            goes_on = False
            for row in node.rows:
                n_marks = sum(cell.count(PAGE_MARK) for cell in row)
                if n_marks and rows:
                    pages[-1].append(replace(node, rows=tuple(rows), goes_on=goes_on))
                    rows, goes_on = [], True
                pages += [[] for _ in range(n_marks)]
                rows.append(tuple(cell.replace(PAGE_MARK, "") for cell in row))
            pages[-1].append(replace(node, rows=tuple(rows), goes_on=goes_on))
            continue
        first, *rest = node.text.split(PAGE_MARK)
        if node.kind == "heading":  # A title is never torn.
            pages += [[] for _ in rest]
            pages[-1].append(replace(node, text="".join([first, *rest])))
            continue
        pages[-1] += [replace(node, text=first)] if first.strip() else []
        pages += [[replace(node, text=text)] if text.strip() else [] for text in rest]
    return pages


def _pptx(path: Path, name: str, pictures: PictureWords) -> ParsedDocument:
    with _damage_told(name):
        edited = preprocess_pptx(path)
    shown = [
        [("paragraph", "\n".join(remark))] + [block for one in held for block in pictures.take(one)]
        for remark, held in zip(edited.remarks, edited.pictures, strict=True)
    ]
    return _slides("pptx", read_office(edited.data, "pptx", name), shown)


def slides_document(path: Path, name: str) -> ParsedDocument:
    """Return the slides of a PowerPoint file of before 2007; raise DocumentError if damaged."""
    return _slides("ppt", read_office(path.read_bytes(), "ppt", name), ())


def _slides(
    kind: str, content: OfficeContent, added: Sequence[Sequence[tuple[str, str]]]
) -> ParsedDocument:
    """Return the slides, each with the blocks that are added behind what it shows."""
    canonical = _begin(content)
    slides: dict[int, list[XbergNode]] = defaultdict(list)
    for node in content.nodes:
        slides[node.page or 1].append(node)
    for number in range(1, max(len(added), *slides, 0) + 1):
        canonical.start_page(_first_heading(slides[number]))
        add_nodes(canonical, slides[number], number_lists=True)
        for block in chain.from_iterable(islice(added, number - 1, number)):
            canonical.add(*block)
    return canonical.finish(kind, PARSER, title=content.title)


@contextmanager
def _damage_told(name: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, LookupError, ElementTree.ParseError) as error:
        raise inconsistent_file(name) from error


def _begin(content: OfficeContent) -> CanonicalText:
    canonical = CanonicalText()
    canonical.warnings += content.warnings
    return canonical


def _first_heading(nodes: Iterable[XbergNode]) -> str:
    return next((node.text for node in nodes if node.kind == "heading"), "")


def _list_text(items: Sequence[XbergNode], number_lists: bool) -> str:
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
