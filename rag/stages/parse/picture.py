"""Parser for images: the words that OCR has recognized on their pages, laid out."""

from __future__ import annotations

from pathlib import Path

from rag.core.documents import Notice, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.detect.file_errors import NEEDS_OCR
from rag.stages.parse.headings import numbered_headings
from rag.stages.parse.ocr.images import count_frames, is_animated
from rag.stages.parse.ocr.scanned_page import (
    Recognized,
    is_unsure,
    listed,
    no_words_recognized,
    scan_notices,
    scanned_page,
)
from rag.stages.parse.pdf_layout.assemble import PdfText, merge_blocks
from rag.stages.parse.pdf_layout.flow import ReadPage, laid_out

_MOVES = Notice("It moves: only its first picture is read.")


def parse_picture(path: Path, name: str, kind: str, recognized: Recognized) -> ParsedDocument:
    """Return the recognized text; raise DocumentError where there is none."""
    if not recognized:
        raise DocumentError(
            "“{name}” is an image.", hint=NEEDS_OCR.message, name=name, **NEEDS_OCR.params
        )
    n_pages = count_frames(path, name)
    pages = [recognized.get(number) for number in range(1, n_pages + 1)]
    unread = [number for number, page in enumerate(pages, 1) if page is None]
    written = PdfText()
    unsure: list[int] = []
    words: list[str] = []
    failed: list[int] = []
    read = (ReadPage("scan") if page is None else scanned_page(page) for page in pages)
    for number, laid in enumerate(laid_out(read), 1):
        unsure += [number] * is_unsure(laid)
        words += laid.unsure_words
        failed += [number] * (laid.state == "failed")
        written.add_page(laid, str(number))
    text = written.text
    if not text.strip("\f \n"):
        raise no_words_recognized(name)
    return ParsedDocument(
        kind,
        text,
        "picture/1",
        tuple(written.pages),
        merge_blocks(list(numbered_headings(text)), written.tables),
        warnings=(
            *([_MOVES] if is_animated(path, name) else []),
            *([_unread(unread)] if unread else []),
            *scan_notices(unsure, failed, words),
        ),
    )


def _unread(numbers: list[int]) -> Notice:
    return Notice(
        "No text layer on page {pages}: nothing of it is searchable.", pages=listed(numbers)
    )
