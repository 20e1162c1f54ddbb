"""Office, HTML, EPUB and mail through xberg. In: bytes. Out: blocks of its Markdown.

xberg is given bytes only: it would fetch addresses. Its Markdown is unescaped, so that quotes
match what people see.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from rag.core.documents import Block, Page, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.clean import clean_text, is_garbled
from rag.stages.decode import decode_text
from rag.stages.parse.docx_numbers import number_headings
from rag.stages.parse.markdown import markdown_blocks
from rag.stages.parse.titles import numbered_titles

MIME = {
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "epub": "application/epub+zip",
    "eml": "message/rfc822",
    "html": "text/html",
    "doc": "application/msword",
}
MAX_CHARS = 20_000_000
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()<>#+\-.!~|&$])")
_LINK = re.compile(r"!?\[([^\[\]\n]+)\]\((?:[a-z]+:|#|/|\.)[^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)")
_EMPHASIS = tuple(
    re.compile(
        rf"(?<![\w\\{mark[-1]}]){mark}(?=[^\s{mark[-1]}])(.+?)(?<=[^\s\\]){mark}(?![\w{mark[-1]}])"
    )
    if mark in ("__", "_")
    else re.compile(rf"(?<!\\){mark}(?=\S)(.+?)(?<=[^\s\\]){mark}")
    for mark in (r"\*\*", "__", r"(?<!\*)\*(?!\*)", "_")
)
_GUESSED_HEADING = re.compile(r"^#{1,6} +(?=\S)", re.M)
_FRONT_MATTER = re.compile(r"\A---\s+(?:## )?title:[^\n]*\n+(?:---\s*\n)?")
_TOC_LINE = re.compile(r"^.{1,80}?(?:\.{4,}|…{2,}|\t)\s*\d{1,4}\s*$\n?", re.M)
# An xlsx or pptx page is a sheet or slide; other page breaks are guesses of a renderer.
_PAGED = ("pptx", "xlsx")


def parse_office(path: Path, name: str, kind: str) -> ParsedDocument:
    """Return the document's text as Markdown with blocks; raise DocumentError saying why not."""
    data = path.read_bytes()
    encoding = ""
    if kind == "html":
        text, encoding = decode_text(data, name)
        data = text.encode()
    parts = _extract(data, kind, name)
    if kind == "docx":
        parts = [(label, number_headings(path, part)) for label, part in parts]
    warnings = []
    if sum(len(part) for _, part in parts) > MAX_CHARS:
        parts = _capped(parts)
        warnings.append(f"Only the first {MAX_CHARS} characters are kept.")
    if not any(part.strip() for _, part in parts):
        raise DocumentError("“{name}” holds no text.", hint="Upload a file with text.", name=name)
    if is_garbled("\n".join(part for _, part in parts)):
        raise DocumentError(
            "The characters of “{name}” cannot be read.",
            hint="Save it as .docx and upload that.",
            name=name,
        )
    return _assemble(kind, parts, encoding, tuple(warnings))


def _extract(data: bytes, kind: str, name: str) -> list[tuple[str, str]]:
    """Return (label, Markdown) of each sheet or slide, or one nameless part."""
    import xberg  # Half of the start-up time; a PDF or a text needs none of it.

    config = xberg.ExtractionConfig(
        disable_ocr=True, use_cache=False, output_format="markdown",
        pages=xberg.PageConfig(extract_pages=True) if kind in _PAGED else None,
    )  # fmt: skip
    source = xberg.ExtractInput(
        kind=xberg.ExtractInputKind.BYTES,
        bytes=data,
        mime_type=MIME[kind],
        filename=f"document.{kind}",
    )
    try:
        results = asyncio.run(xberg.extract(source, config)).results
    except (xberg.XbergError, RuntimeError, ValueError, OSError) as error:
        raise _damaged(name) from error
    if not results:
        raise _damaged(name)
    if kind not in _PAGED:
        return [("", _tidy(results[0].content, kind))]
    return [
        (page.sheet_name or page.section_name or "", _tidy(page.content, kind))
        for page in results[0].pages or []
    ]


def _damaged(name: str) -> DocumentError:
    return DocumentError(
        "“{name}” is damaged or not what its content claims.",
        hint="Open it, save it anew and upload that.", name=name,
    )  # fmt: skip


def _tidy(text: str, kind: str) -> str:
    text = clean_text(text).replace("\f", "\n")
    if kind == "html":
        text = _FRONT_MATTER.sub("", text)
    if kind in ("docx", "doc"):
        text = _TOC_LINE.sub("", text)
    if kind == "doc":
        # Guessed from short lines, and wrong as often as right.
        text = _GUESSED_HEADING.sub("", text)
    return text.strip("\n") + "\n"


def _capped(parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    kept, left = [], MAX_CHARS
    for label, part in parts:
        kept.append((label, part[:left]))
        left -= len(kept[-1][1])
    return kept


def _assemble(
    kind: str, parts: list[tuple[str, str]], encoding: str, warnings: tuple[str, ...]
) -> ParsedDocument:
    pages: list[Page] = []
    blocks: list[Block] = []
    pieces: list[str] = []
    position = 0
    for number, (label, part) in enumerate(parts, start=1):
        if number > 1:
            pieces.append("\f")
            position += 1
        start = position
        for block, piece in _plain_pieces(part):
            if block is not None:
                end = position + len(piece.rstrip())
                blocks.append(Block(block.kind, position, end, block.level))
            pieces.append(piece)
            position += len(piece)
        if kind in _PAGED:
            label = " ".join(clean_text(label or _first_heading(part)).split())
            pages.append(Page(number, label[:80] or str(number), start, position))
    if kind == "doc":
        blocks += numbered_titles("".join(pieces))
        blocks = _without_overlap(blocks)
    return ParsedDocument(
        kind, "".join(pieces), "xberg/1", tuple(pages), tuple(blocks), encoding, "", warnings
    )


def _plain_pieces(part: str) -> Iterator[tuple[Block | None, str]]:
    """Yield the part piece by piece, each block with its marks of emphasis taken off.

    Blocks are told before that: a paragraph that begins with an escaped # is no heading.
    """
    last = 0
    for block in markdown_blocks(part):
        yield None, part[last : block.start]
        raw = part[block.start : block.end]
        yield block, raw if block.kind == "code" else _without_marks(raw)
        last = block.end
    yield None, part[last:]


def _without_marks(text: str) -> str:
    text = _LINK.sub(r"\1", text)
    for emphasis in _EMPHASIS:
        text = emphasis.sub(r"\1", text)
    return _ESCAPED.sub(r"\1", text)


def _without_overlap(blocks: list[Block]) -> list[Block]:
    """Return headings first where a paragraph is one too."""
    headings = [block for block in blocks if block.kind == "heading"]
    taken = {block.start for block in headings}
    rest = [b for b in blocks if b.kind != "heading" and b.start not in taken]
    return sorted([*headings, *rest], key=lambda block: block.start)


def _first_heading(part: str) -> str:
    first = part.lstrip().split("\n", 1)[0]
    return _without_marks(first.lstrip("# ")) if first.startswith("#") else ""
