"""Passages for tests of citations: a hit that stands anywhere in its file."""

from __future__ import annotations

from rag.core.types import Hit, Leg
from rag.stages.context import Passage


def make_hit(
    text: str, *, number: int = 1, start: int = 0, pages: tuple[int, int] | None = None
) -> Hit:
    """Return a hit with ``text`` at ``start`` of its file."""
    first, last = pages or (None, None)
    return Hit(
        number, 1, 1, number, f"file{number}.pdf", text, number, 1.0, Leg(), Leg(), (), start,
        start + len(text), first, last, ("Care",), "document", 10,
    )  # fmt: skip


def make_passages(*texts: str) -> list[Passage]:
    """Return the texts as doc_01, doc_02 and so on."""
    return [
        Passage(f"doc_{n:02d}", make_hit(text, number=n), text) for n, text in enumerate(texts, 1)
    ]
