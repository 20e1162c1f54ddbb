"""Pictures to be recognized: PDF pages without text of their own, and the pages of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rag.core.documents import IMAGE_KINDS, PICTURED_KINDS
from rag.stages.detect.sniff import sniff_kind
from rag.stages.parse.ocr.images import count_frames, image_picture
from rag.stages.parse.ocr.packed_pictures import packed_picture, pictures_for_ocr
from rag.stages.parse.ocr.pdf_pictures import pages_for_ocr, pdf_picture
from rag.stages.parse.ocr.recognize import PagePicture
from rag.stages.parse.pdf_file import open_pdf


@dataclass(frozen=True, slots=True)
class PictureSource:
    """The numbers of a file's pages that want OCR, from 1, and how their pictures are had.

    ``load`` raises DocumentError for a page that cannot be drawn or decoded. ``is_part``: they are
    pictures within a text, which is read without them too.
    """

    numbers: Sequence[int]
    load: Callable[[int], PagePicture]
    is_part: bool = False


def pictures_of(path: Path, name: str, max_pages: int) -> PictureSource:
    """Return the first ``max_pages`` pages of a file that want OCR; other kinds have none.

    Raises DocumentError for what cannot be opened.
    """
    kind = sniff_kind(path, name)
    if kind == "pdf":
        document, _ = open_pdf(path, name)
        document.init_forms()
        numbers = list(islice(pages_for_ocr(document), max_pages))
        return PictureSource(numbers, lambda number: pdf_picture(document, name, number))
    if kind in IMAGE_KINDS:
        n_pages = min(max_pages, count_frames(path, name))
        return PictureSource(
            range(1, n_pages + 1), lambda number: image_picture(path, name, number)
        )
    if kind in PICTURED_KINDS:
        numbers = list(islice(pictures_for_ocr(path), max_pages))
        return PictureSource(numbers, lambda number: packed_picture(path, number), is_part=True)
    return PictureSource((), lambda number: image_picture(path, name, number))
