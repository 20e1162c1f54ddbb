"""Bytes to canonical text, one format a file. Only ``parse_document`` is called from outside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rag.core.documents import ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.sniff import sniff_kind


def parse_document(path: Path, name: str) -> ParsedDocument:
    """Return the document at ``path``; raise DocumentError saying what is wrong with it.

    Must run in a process of its own: parsers crash, hang and swell on hostile input.
    """
    kind = sniff_kind(path, name)
    document = _parse(path, name, kind)
    if not document.text.strip():
        raise DocumentError("“{name}” holds no text.", hint="Upload a file with text.", name=name)
    return replace(document, kind=kind)


def _parse(path: Path, name: str, kind: str) -> ParsedDocument:
    # Each parser brings a heavy library; a child process reads one file and needs one of them.
    if kind in ("txt", "md", "csv"):
        from rag.stages.parse.plain import parse_plain  # chardet

        return parse_plain(path, name, kind)
    if kind == "pdf":
        from rag.stages.parse.pdf import parse_pdf  # pdfium

        return parse_pdf(path, name)
    if kind == "doc":
        from rag.stages.parse.doc import parse_doc  # xberg

        return parse_doc(path, name)
    from rag.stages.parse.office import parse_office  # xberg

    return parse_office(path, name, kind)
