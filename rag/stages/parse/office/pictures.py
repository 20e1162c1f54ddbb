"""Words of pictures within Word and PowerPoint files, as blocks where they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rag.core.documents import Notice
from rag.core.ocr.scans import PageWords
from rag.stages.detect.file_errors import NEEDS_OCR
from rag.stages.parse.ocr.packed_pictures import list_pictures, pictures_for_ocr
from rag.stages.parse.ocr.scanned_page import SURE, scanned_page
from rag.stages.parse.pdf_layout.assemble import PdfText
from rag.stages.parse.pdf_layout.flow import laid_out

_UNREAD = (
    "Images in it are not read: {n}. Turn on text recognition (OCR) in the settings of its store "
    "and index it again; the workers need the package: pip install {package}."
)


class PictureWords:
    """The recognized words of a package's pictures, each taken where it is shown first."""

    def __init__(self, path: Path, recognized: Mapping[int, PageWords]) -> None:
        self._numbers = {member: n for n, member in enumerate(list_pictures(path), 1)}
        self._wanted = set(pictures_for_ocr(path)) if self._numbers else set()
        self._recognized = recognized
        self._taken: set[int] = set()

    def take(self, member: str) -> list[tuple[str, str]]:
        """Return the blocks of a picture, kind and text; none where it has no words."""
        number = self._numbers.get(member, 0)
        if number in self._taken or number not in self._recognized:
            return []
        self._taken.add(number)
        return list(_blocks(self._recognized[number]))

    def notices(self) -> Iterator[Notice]:
        """Yield what a reader should know of the pictures."""
        read = [self._recognized[n] for n in sorted(self._wanted & self._recognized.keys())]
        if n_unread := len(self._wanted) - len(read):
            yield Notice(
                _UNREAD,
                n=n_unread,
                **NEEDS_OCR.params,
            )
        if n_failed := sum(page.has_failed for page in read):
            yield Notice("Images in it whose text could not be recognized: {n}.", n=n_failed)
        if n_unsure := sum(bool(page.words) and page.confidence < SURE for page in read):
            yield Notice(
                "Images in it that are hard to read: {n}. Compare their words.", n=n_unsure
            )


def _blocks(page: PageWords) -> Sequence[tuple[str, str]]:
    written = PdfText()
    for laid in laid_out([scanned_page(page)]):
        written.add_page(laid, "1")
    text, end = written.text, 0
    parts: list[tuple[str, str]] = []
    for table in written.tables:
        parts += [("paragraph", text[end : table.start]), ("table", text[table.start : table.end])]
        end = table.end
    parts.append(("paragraph", text[end:]))
    return [(kind, part.strip()) for kind, part in parts if part.strip()]
