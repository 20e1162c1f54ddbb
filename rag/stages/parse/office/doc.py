"""Parser for Word 97 and older (.doc): LibreOffice where it is installed, else xberg."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from rag.core.documents import Notice, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.detect.clean import is_garbled
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.headings import numbered_headings
from rag.stages.parse.office.libreoffice import CONVERTED, converted, find_libreoffice
from rag.stages.parse.office.office import XbergNode, add_nodes, parse_office, read_office
from rag.stages.parse.word.revisions import has_deletions

PARSER = "word97/1"
# xberg ends a row of a table with one tab more; an empty cell looks the same and costs a line end.
_ROW = re.compile(r"\t\t(?!\t)")
_LOST = Notice(
    "It was read without LibreOffice: raised figures, numbers of lists, merged cells and text "
    "boxes may be wrong. Save it as .docx, or install LibreOffice on the server."
)
_NOT_LEFT_OUT = Notice(
    "Text that was deleted under change tracking may still be in it. Install LibreOffice on the "
    "server, or save it as .docx."
)


def parse_doc(path: Path, name: str) -> ParsedDocument:
    """Return the document; raise DocumentError when neither way reads it."""
    office, reason = find_libreoffice(), None
    try:
        if office is not None and (document := _by_libreoffice(office, path, name)):
            return document
    except DocumentError as error:
        reason = error
    try:
        document = _by_xberg(path, name)
        if _is_read(document):
            notices = (_LOST, _NOT_LEFT_OUT) if has_deletions(path.read_bytes()) else (_LOST,)
            return replace(document, warnings=(*document.warnings, *notices))
    except DocumentError as error:
        reason = reason or error
    if office is None:
        raise DocumentError(
            "“{name}” is a .doc file that cannot be read here.",
            hint="Save it as .docx, or install LibreOffice on the server.",
            name=name,
        ) from reason
    raise reason or DocumentError(
        "“{name}” is damaged.", hint="Open it, save it as .docx and upload that.", name=name
    )


def _is_read(document: ParsedDocument) -> bool:
    return bool(document.text.strip()) and not is_garbled(document.text)


def _by_xberg(path: Path, name: str) -> ParsedDocument:
    content = read_office(path.read_bytes(), "doc", name)
    canonical = CanonicalText()
    canonical.warnings += content.warnings
    add_nodes(canonical, map(_as_text, content.nodes), number_lists=False)
    document = canonical.finish("doc", PARSER, title=content.title)
    spans = {(block.start, block.end): block for block in numbered_headings(document.text)}
    blocks = [spans.get((block.start, block.end), block) for block in document.blocks]
    return replace(document, blocks=tuple(blocks))


def _as_text(node: XbergNode) -> XbergNode:
    """Return the node as paragraph or table: xberg takes any bold line for a heading."""
    if node.text.count("\t") > 1:
        rows = [row.split("\t") for row in _ROW.sub("\n", node.text).split("\n")]
        return replace(node, kind="table", rows=tuple(map(tuple, rows)), level=0)
    return replace(node, kind="paragraph", level=0) if node.kind == "heading" else node


def _by_libreoffice(office: str, path: Path, name: str) -> ParsedDocument | None:
    with converted(office, path, name, suffix=".doc", wanted="docx") as made:
        document = parse_office(made, name, "docx") if made is not None else None
        if document is None or not _is_read(document):
            return None
        return replace(document, kind="doc", parser=CONVERTED)
