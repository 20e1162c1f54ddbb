"""Office, HTML, EPUB and mail through xberg. In: bytes. Out: blocks of its Markdown.

xberg is given bytes only: it would fetch addresses. Its Markdown is unescaped, so that quotes
match what people see.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from rag.core.documents import Block, Page, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.clean import clean_text, is_garbled
from rag.stages.decode import decode_text
from rag.stages.parse.docx_numbers import number_headings
from rag.stages.parse.markdown import markdown_blocks

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
_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
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
    result = _extract(data, kind, name)
    parts = [page.content for page in result.pages or []] if kind in _PAGED else [result.content]
    texts = [_tidy(part, kind) for part in parts] or [""]
    if kind == "docx":
        texts = [number_headings(path, texts[0])]
    warnings = []
    if sum(map(len, texts)) > MAX_CHARS:
        texts = _capped(texts)
        warnings.append(f"Only the first {MAX_CHARS} characters are kept.")
    if not any(text.strip() for text in texts):
        raise DocumentError("“{name}” holds no text.", hint="Upload a file with text.", name=name)
    if is_garbled("\n".join(texts)):
        raise DocumentError(
            "The characters of “{name}” cannot be read.",
            hint="Save it as .docx and upload that.",
            name=name,
        )
    return _assemble(kind, texts, encoding, tuple(warnings))


def _extract(data: bytes, kind: str, name: str) -> Any:
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
    return results[0]


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
    return _ESCAPED.sub(r"\1", _BOLD.sub(r"\1", text)).strip("\n") + "\n"


def _capped(texts: list[str]) -> list[str]:
    kept, left = [], MAX_CHARS
    for text in texts:
        kept.append(text[:left])
        left -= len(kept[-1])
    return kept


def _assemble(
    kind: str, texts: list[str], encoding: str, warnings: tuple[str, ...]
) -> ParsedDocument:
    pages: list[Page] = []
    blocks: list[Block] = []
    text = "\f".join(texts)
    position = 0
    for number, part in enumerate(texts, start=1):
        end = position + len(part)
        blocks += markdown_blocks(text, position, end)
        if kind in _PAGED:
            first = part.lstrip().split("\n", 1)[0]
            label = first.lstrip("# ").strip() if first.startswith("#") else str(number)
            pages.append(Page(number, label[:80], position, end, bool(part.strip())))
        position = end + 1
    return ParsedDocument(
        kind, text, "xberg/1", tuple(pages), tuple(blocks), encoding, "", warnings
    )
