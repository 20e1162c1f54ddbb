"""Bytes to canonical text, one format a file. Only ``parse_document`` is called from outside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rag.core.documents import ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.detect.clean import is_garbled
from rag.stages.detect.sniff import sniff_kind


def parse_document(path: Path, name: str, encoding: str = "") -> ParsedDocument:
    """Return the document at ``path``; raise DocumentError saying what is wrong with it.

    ``encoding`` overrules the detection for kinds of text. Must run in a process of its own:
    parsers crash, hang and swell on hostile input.
    """
    kind = sniff_kind(path, name)
    document = _parse(path, name, kind, encoding)
    if not document.text.strip():
        raise DocumentError("“{name}” holds no text.", hint="Upload a file with text.", name=name)
    if kind in ("docx", "pptx", "xlsx", "epub") and is_garbled(document.text):
        raise DocumentError(
            "The characters of “{name}” cannot be read.",
            hint="Save it as .docx and upload that.",
            name=name,
        )
    return replace(document, kind=kind)


def _parse(path: Path, name: str, kind: str, encoding: str) -> ParsedDocument:
    # Each parser brings a heavy library; a child process reads one file and needs one of them.
    if kind in ("txt", "md", "csv"):
        from rag.stages.parse.plain import parse_plain

        return parse_plain(path, name, kind, encoding)
    if kind == "pdf":
        from rag.stages.parse.pdf import parse_pdf  # pdfium

        return parse_pdf(path, name)
    if kind == "html":
        from rag.stages.parse.html import parse_html  # one of several formats

        return parse_html(path, name, encoding)
    if kind == "eml":
        from rag.stages.parse.mail import parse_mail  # email

        return parse_mail(path, name, encoding)
    if kind == "epub":
        from rag.stages.parse.epub import parse_epub  # zip and XML

        return parse_epub(path, name)
    if kind == "doc":
        from rag.stages.parse.doc import parse_doc  # xberg

        return parse_doc(path, name)
    from rag.stages.parse.office import parse_office  # xberg

    return parse_office(path, name, kind)
