"""Page flow: pages laid out one after the other, their running heads known from those around."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rag.stages.detect.clean import clean_text
from rag.stages.parse.pdf_layout.page import Layer, lay_out
from rag.stages.parse.pdf_layout.paragraphs import Line, Paragraph
from rag.stages.parse.pdf_layout.running import (
    AROUND,
    NO_EDGES,
    Edges,
    page_edges,
    running_rows,
    take_rows,
)
from rag.stages.parse.pdf_layout.tables import Table

MAX_MARGIN = 1000


@dataclass(slots=True)
class ReadPage:
    """A page's words by their turn, and what it turned out to be.

    ``state`` is full, scan, garbled, broken, blank, or recognized and failed after OCR, which has
    a ``confidence``.
    """

    state: str
    layers: list[Layer] = field(default_factory=list)
    items: list[Paragraph | Table] = field(default_factory=list)
    edges: Edges = NO_EDGES
    margin: str = ""
    is_plain: bool = False
    confidence: float | None = None
    unsure_words: tuple[str, ...] = ()


def layered_page(state: str, layers: list[Layer], confidence: float | None = None) -> ReadPage:
    """Return a page whose words are to be laid out."""
    return ReadPage(state, layers, edges=page_edges(layers), confidence=confidence)


def plain_page(
    state: str, text: str, *, is_plain: bool, confidence: float | None = None
) -> ReadPage:
    """Return a page whose text is taken as it came."""
    line = Line(text, 0, 0, 0, 0, 0)
    items: list[Paragraph | Table] = [Paragraph(text, line, line)]
    return ReadPage(state, items=items, is_plain=is_plain, confidence=confidence)


def laid_out(pages: Iterable[ReadPage]) -> Iterator[ReadPage]:
    """Yield the pages laid out; some pages ahead are read, to know what runs through them."""
    edges: deque[Edges] = deque(maxlen=2 * AROUND + 1)
    waiting: deque[ReadPage] = deque()
    for number, page in enumerate(pages):
        edges.append(page.edges)
        waiting.append(page)
        if number >= AROUND:
            yield _next(waiting, edges)
    while waiting:
        yield _next(waiting, edges)


def _next(waiting: deque[ReadPage], edges: deque[Edges]) -> ReadPage:
    page = waiting.popleft()
    _lay_out(page, list(edges), len(edges) - len(waiting) - 1)
    return page


def _lay_out(page: ReadPage, edges: Sequence[Edges], at: int) -> None:
    """Part a page's running heads and feet from its text, and order the rest."""
    n_top, n_bottom, turns = running_rows(edges, at)
    margin = take_rows(page.layers, n_top, n_bottom)
    for layer in page.layers:
        if layer.turn in turns:
            margin.append(" ".join(piece.text for piece in layer.pieces))
        else:
            page.items += lay_out(layer)
    page.layers = []
    page.margin = clean_text("\n".join(margin))[:MAX_MARGIN]
