"""xberg reader for Office files: its node tree as blocks in reading order.

xberg is given bytes only: it would fetch addresses. Its tree is read, not its Markdown, which
escapes and marks up the text, so that quotes would not match what people see.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rag.core.documents import Notice
from rag.core.errors import DocumentError
from rag.stages.detect.mime_type import MIME_TYPES
from rag.stages.detect.refusals import inconsistent_file

# Ten times what xberg allows: a price list has more than its hundred thousand.
MAX_CELLS = 1_000_000


@dataclass(frozen=True, slots=True)
class XbergNode:
    """One block: ``kind`` is heading, paragraph, list, table, code; ``rows`` are a table's cells.

    ``layer`` tells body from header, footer and footnote; a list's items have depth and order.
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


@dataclass(frozen=True, slots=True)
class OfficeContent:
    """The nodes of a file, its title, its sheets' names and what xberg complained about."""

    nodes: tuple[XbergNode, ...]
    title: str
    sheets: tuple[str, ...]
    warnings: tuple[Notice, ...]


def read_office(data: bytes, kind: str, name: str) -> OfficeContent:
    """Return the content of a docx, pptx, xlsx or doc; raise DocumentError when it is damaged."""
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
    facts = json.loads(str(result.metadata.format or "{}"))
    return OfficeContent(
        tuple(_nodes(result.document.nodes)),
        result.metadata.title or "",
        tuple(facts.get("sheet_names") or ()),
        tuple(
            Notice("Reading it gave the remark: {remark}", remark=warning.message)
            for warning in result.processing_warnings
        ),
    )


def _nodes(raw: Any) -> Iterator[XbergNode]:
    lists: dict[int, tuple[int, bool]] = {}
    for index, item in enumerate(raw):
        content = json.loads(str(item.content))
        kind = content["node_type"]
        attributes = item.attributes or {}
        common = {
            "page": item.page,
            "layer": str(item.content_layer),
            "style": attributes.get("style_name", ""),
        }
        if kind == "list":
            depth = lists[item.parent][0] + 1 if item.parent in lists else 0
            lists[index] = (depth, bool(content.get("ordered")))
        elif kind == "list_item":
            depth, is_ordered = lists.get(item.parent, (0, False))
            yield XbergNode("list", content["text"], depth=depth, is_ordered=is_ordered, **common)
        elif kind == "heading":
            yield XbergNode("heading", content["text"], int(content["level"]), **common)
        elif kind == "table":
            yield XbergNode("table", rows=_rows(content["grid"]), **common)
        elif text := content.get("text") or content.get("description"):
            yield XbergNode("code" if kind == "code" else "paragraph", text, **common)


def _rows(grid: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    rows = [[""] * int(grid["cols"]) for _ in range(int(grid["rows"]))]
    for cell in grid["cells"]:
        rows[cell["row"]][cell["col"]] = cell["content"]
    return tuple(tuple(row) for row in rows)
