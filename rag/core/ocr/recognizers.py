"""Ports of OCR: an engine that reads pictures, and what reads the pages of a file with it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rag.core.ocr.scans import PageWords, TextLine


class OcrEngine(Protocol):
    """Recognizes text in a picture."""

    def read_lines(self, picture: NDArray[np.uint8]) -> tuple[list[TextLine], int]:
        """Return its lines, as if it were upright, and its quarter turns to the left."""
        ...


class PageRecognizer(Protocol):
    """Recognizes the text of a file's pages that are pictures, in isolation."""

    def is_installed(self) -> bool:
        """Return whether it can be used on this machine."""
        ...

    def count_pages(self, path: Path, name: str) -> int:
        """Return how many pages it would recognize; raise DocumentError as ``recognize`` does."""
        ...

    def recognize(
        self,
        path: Path,
        name: str,
        *,
        known: Collection[int],
        on_page: Callable[[PageWords, int], None],
    ) -> None:
        """Call ``on_page`` with each page that is not ``known``, and how many there are in all.

        Raises DocumentError for a file that cannot be opened; what stops at a page is told there.
        What ``on_page`` raises ends it.
        """
        ...
