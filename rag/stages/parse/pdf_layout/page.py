"""PDF page: its words as paragraphs and tables, in reading order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pypdfium2 as pdfium

from rag.stages.parse.pdf_layout.aligned_tables import aligned_tables
from rag.stages.parse.pdf_layout.columns import to_regions
from rag.stages.parse.pdf_layout.grid_tables import grid_table
from rag.stages.parse.pdf_layout.lines import Piece, to_pieces
from rag.stages.parse.pdf_layout.paragraphs import (
    Paragraph,
    goes_on,
    join_paragraphs,
    to_lines,
)
from rag.stages.parse.pdf_layout.rules import Grid, Rect, find_beams, find_grids, read_rules
from rag.stages.parse.pdf_layout.tables import Table
from rag.stages.parse.pdf_layout.words import DIAGONAL, Word, read_page_words, turned

# Of the lower of two items: more than lines that are set close, less than what stands beside.
_OVERLAP = 0.4


@dataclass(slots=True)
class Layer:
    """The words of a page that are turned one way: pieces of lines, and tables with grids."""

    turn: int
    pieces: list[Piece]
    tables: list[Table]
    beams: list[tuple[float, float, float]]

    @property
    def text(self) -> str:
        """Return its words, in no order that means anything."""
        cells = (cell for table in self.tables for row in table.rows for cell in row)
        words = (word.text for piece in self.pieces for word in piece.words)
        return " ".join([*words, *cells])


def read_layers(page: pdfium.PdfPage, text_page: pdfium.PdfTextPage) -> list[Layer]:
    """Return the page's words by the way they are turned, in the order of the stream."""
    words = read_page_words(page, text_page)
    return to_layers(words, read_rules(page) if words else [])


def to_layers(words: Sequence[Word], rules: Sequence[Rect]) -> list[Layer]:
    """Return words by the way they are turned, with the tables that rules make of them."""
    by_turn: dict[int, list[Word]] = {}
    for word in words:
        by_turn.setdefault(word.turn, []).append(word)
    return [_layer(turn, held, rules) for turn, held in by_turn.items()]


def _layer(turn: int, words: list[Word], rules: Sequence[Rect]) -> Layer:
    upright = [turned(turn, rule) for rule in rules]
    grids = [] if turn == DIAGONAL else find_grids(upright)
    inside: dict[int, list[Word]] = {}
    free: list[Word] = []
    for word in words:
        at = next((n for n, grid in enumerate(grids) if _holds(grid, word)), None)
        (free if at is None else inside.setdefault(at, [])).append(word)
    tables: list[Table] = []
    for at, held in inside.items():
        table = grid_table(grids[at], held, held[0].first)
        if table is None:
            free += held
        else:
            tables.append(table)
    free.sort(key=lambda word: word.first)
    return Layer(turn, to_pieces(free), tables, find_beams(upright))


def _holds(grid: Grid, word: Word) -> bool:
    middle = (word.left + word.right) / 2
    return grid.xs[0] <= middle <= grid.xs[-1] and grid.ys[0] <= word.middle <= grid.ys[-1]


def lay_out(layer: Layer) -> list[Paragraph | Table]:
    """Return what stands on a page, in reading order."""
    waiting = deque(sorted(layer.tables, key=lambda table: table.order))
    out: list[Paragraph | Table] = []
    for region in to_regions(layer.pieces):
        found = _items(region, layer, waiting)
        if out and found and _is_broken_off(out[-1], found[0]):
            out[-1] = out[-1].joined(found.pop(0))  # type: ignore[union-attr, arg-type]
        out += found
    return _stacked([*out, *waiting])


def _stacked(items: list[Paragraph | Table]) -> list[Paragraph | Table]:
    """Return the items from top to bottom if all stand below each other, however they came."""
    places = sorted(
        ((item.top, item.bottom, at) for at, item in enumerate(items)), key=lambda place: place[0]
    )
    is_stack = all(
        above[1] - below[0] < _OVERLAP * min(above[1] - above[0], below[1] - below[0])
        for above, below in pairwise(places)
    )
    return [items[at] for _, _, at in places] if is_stack else items


def _items(region: list[Piece], layer: Layer, waiting: deque[Table]) -> list[Paragraph | Table]:
    """Return what stands in a region, and the grids ``waiting`` whose place has come."""
    tables = [] if layer.turn == DIAGONAL else list(aligned_tables(region, layer.beams))
    inside = {id(piece): at for at, (_, pieces) in enumerate(tables) for piece in pieces}
    told: set[int] = set()
    out: list[Paragraph | Table] = []
    stretch: list[Piece] = []
    for piece in region:
        at = inside.get(id(piece))
        passed = []
        while waiting and waiting[0].order < piece.order:
            passed.append(waiting.popleft())
        if at is not None and at not in told:
            told.add(at)
            passed.append(tables[at][0])
        if passed:
            out += [*join_paragraphs(to_lines(stretch)), *passed]
            stretch = []
        if at is None:
            stretch.append(piece)
    return [*out, *join_paragraphs(to_lines(stretch))]


def _is_broken_off(last: Paragraph | Table, first: Paragraph | Table) -> bool:
    return isinstance(last, Paragraph) and isinstance(first, Paragraph) and goes_on(last, first)
