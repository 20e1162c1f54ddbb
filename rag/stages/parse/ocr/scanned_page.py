"""Scanned page: its recognized words laid out as those of a page with text, and what is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rag.core.documents import Notice
from rag.core.errors import DocumentError
from rag.core.ocr.scans import PageWords
from rag.stages.parse.ocr.reading_order import to_layout
from rag.stages.parse.pdf_layout.flow import ReadPage, layered_page, plain_page
from rag.stages.parse.pdf_layout.page import to_layers

Recognized = Mapping[int, PageWords]
# A clean scan is at 0.97 and more; below this, letters are wrong here and there.
SURE = 0.9
N_LISTED, N_WORDS = 20, 12


def scanned_page(page: PageWords, *, is_plain: bool = False) -> ReadPage:
    """Return the page to be laid out; recognized without any words it is blank."""
    if page.has_failed:
        return ReadPage("failed")
    if not page.words:
        return ReadPage("blank")
    if is_plain:
        read = plain_page("recognized", page.text, is_plain=True, confidence=page.confidence)
    else:
        words = [word for word, _ in to_layout(page.words)]
        read = layered_page("recognized", to_layers(words, []), page.confidence)
    read.unsure_words = page.unsure_words
    return read


def is_unsure(page: ReadPage) -> bool:
    """Return whether the words of a page were hard to recognize."""
    return page.confidence is not None and page.confidence < SURE


def scan_notices(
    unsure: Sequence[int], failed: Sequence[int], words: Sequence[str]
) -> Iterator[Notice]:
    """Yield what is to be told of pages that OCR has read, and ``words`` that it hardly could."""
    if words:
        yield Notice(
            "Words of the scan that are hard to read: {words}. Compare them with the picture.",
            words=", ".join(words[:N_WORDS]) + (" …" if len(words) > N_WORDS else ""),
        )
    if unsure:
        yield Notice(
            "The scan of page {pages} is hard to read: compare its words with the picture.",
            pages=listed(unsure),
        )
    if failed:
        yield Notice(
            "The text of page {pages} could not be recognized: nothing of it is searchable.",
            pages=listed(failed),
        )


def no_words_recognized(name: str) -> DocumentError:
    """Return the error for a file on whose pictures no word was found."""
    return DocumentError(
        "No words were recognized in “{name}”.",
        hint="Scan it anew, straight and at 200 to 300 dpi, and upload that.",
        name=name,
    )


def listed(numbers: Sequence[int]) -> str:
    """Return some page numbers for a notice."""
    return ", ".join(map(str, numbers[:N_LISTED])) + (" …" if len(numbers) > N_LISTED else "")
