"""Bytes to canonical text, one format a file. Only ``parse_document`` is called from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from rag.core.documents import Notice, ParsedDocument, kind_of_name
from rag.core.errors import DocumentError
from rag.core.ocr.scans import PageWords
from rag.stages.detect.clean import is_garbled
from rag.stages.detect.sniff import is_cut_ole, sniff_kind
from rag.stages.parse.builtin import READERS
from rag.stages.parse.builtin_parser import NOTHING_RECOGNIZED

# Kingsoft's programs give files of Word the suffix of Works, and of old kinds those of new ones.
_ALSO = {"wps": ("doc", "docx"), "xls": ("xlsx",), "ppt": ("pptx",)}
_CUT = Notice("The file ends before its content does: what was left of it is read.")


def parse_document(
    path: Path,
    name: str,
    encoding: str = "",
    parsers: Mapping[str, Any] | None = None,
    recognized: Mapping[int, PageWords] = NOTHING_RECOGNIZED,
) -> ParsedDocument:
    """Return the document at ``path``; raise DocumentError saying what is wrong with it.

    ``encoding`` overrules the detection for kinds of text. ``parsers`` are those that read a kind,
    or files whose name has a suffix such as ``.srt``, in the place of ours. ``recognized`` are the
    words of pages that OCR has read. Must run in a process of its own: parsers crash, hang and
    swell on hostile input.
    """
    kind = sniff_kind(path, name)
    chosen = parsers or {}
    parser = chosen.get(PurePath(name).suffix.lower()) or chosen.get(kind)
    told = {"name": name, "kind": kind, "encoding": encoding}
    if parser is None:
        document = READERS[kind].parse(path, **told, recognized=recognized)
    else:
        document = parser.parse(path, **told)
    if not document.text.strip():
        raise DocumentError("“{name}” holds no text.", hint="Upload a file with text.", name=name)
    if kind in ("docx", "pptx", "xlsx", "epub") and is_garbled(document.text):
        raise DocumentError(
            "The characters of “{name}” cannot be read.",
            hint="Save it as .docx and upload that.",
            name=name,
        )
    if is_cut_ole(path):
        document = replace(document, warnings=(_CUT, *document.warnings))
    told_by_name = kind_of_name(name)
    if told_by_name and kind not in (told_by_name, *_ALSO.get(told_by_name, ())):
        other = Notice(
            "By its name it is .{named}, by its content .{kind}: it is read as that.",
            named=told_by_name,
            kind=kind,
        )
        document = replace(document, warnings=(other, *document.warnings))
    return replace(document, kind=kind)
