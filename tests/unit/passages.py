"""Passages for tests of citations: a hit that stands anywhere in its file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rag.core.hits import Hit
from rag.core.types import Citation
from rag.stages.citing.verify import verify_answer
from rag.stages.prompting.context import Passage


def make_hit(
    text: str, *, number: int = 1, start: int = 0, pages: tuple[int, int] | None = None
) -> Hit:
    """Return a hit with ``text`` at ``start`` of its file."""
    first, last = pages or (None, None)
    return Hit(
        chunk_id=number,
        revision=1,
        store_id=1,
        file_id=number,
        file_name=f"file{number}.pdf",
        text=text,
        rank=number,
        score=1.0,
        char_start=start,
        char_end=start + len(text),
        page_first=first,
        page_last=last,
        heading_path=("Care",),
        content_type="document",
        token_count=10,
    )


def make_passages(*texts: str) -> list[Passage]:
    """Return the texts as doc_01, doc_02 and so on."""
    return [
        Passage(f"doc_{n:02d}", make_hit(text, number=n), text) for n, text in enumerate(texts, 1)
    ]


def verify_citations(
    text: str, passages: Sequence[Passage], **rules: Any
) -> tuple[str, tuple[Citation, ...]]:
    """Return a whole text with ``[n]`` for its n-th citation, and the citations."""
    answer = verify_answer(text, passages, **rules)
    return answer.text, answer.citations
