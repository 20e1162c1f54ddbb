"""PDF columns: the pieces of a page as regions, one after the other as people read them.

The content stream has columns in their order, unless it goes through them line by line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median

from rag.stages.parse.pdf_layout.lines import Piece, count_words, to_rows

_LEAST_ROWS = 6
_GUTTER = 0.7
_LOOSE = 1.2
_EDGE = 0.2
_MOST_SPANNING = 0.4
_MAX_DEPTH = 2
# So many turns from one side to the other and back, each of few pieces, are rows of a table.
_N_TURNS, _FEW = 4, 2


@dataclass(frozen=True, slots=True)
class _Gutter:
    left: float
    right: float

    def side(self, piece: Piece) -> str:
        slack = 0.2 * piece.size
        if piece.right <= self.right + slack:
            return "left"
        return "right" if piece.left >= self.left - slack else "both"


def to_regions(pieces: Sequence[Piece], depth: int = 0) -> list[list[Piece]]:
    """Return the pieces of each column, or of all columns where something reaches over them."""
    rows = to_rows(pieces)
    gutter = _gutter(rows) if len(rows) >= _LEAST_ROWS and depth < _MAX_DEPTH else None
    if gutter is None:
        return [list(pieces)]
    sides = [(gutter.side(piece), piece) for piece in pieces]
    runs = [
        (side, [piece for _, piece in group])
        for side, group in groupby(sides, key=lambda pair: pair[0])
    ]
    n_left = sum(side == "left" for side, _ in sides)
    n_right = sum(side == "right" for side, _ in sides)
    if len(runs) > 0.5 * min(n_left, n_right) + 4:
        if not _are_prose(rows, gutter):
            return [list(pieces)]
        runs = _by_column(rows, gutter)
    runs = _with_tables(runs)
    if not _is_read_down(runs):
        return [list(pieces)]
    regions: list[list[Piece]] = []
    for side, run in runs:
        regions += [run] if side == "both" else to_regions(run, depth + 1)
    return regions


def _gutter(rows: Sequence[Sequence[Piece]]) -> _Gutter | None:
    """Return the white between two columns: few rows reach over it, many have it in their midst."""
    left = min(piece.left for row in rows for piece in row)
    right = max(piece.right for row in rows for piece in row)
    size = median(piece.size for row in rows for piece in row)
    low, high = left + _EDGE * (right - left), right - _EDGE * (right - left)
    whites = _whites(rows, (low, high), _GUTTER * size)
    if not whites:
        return None
    begin, end = max(whites, key=lambda white: white[1] - white[0])
    n_both = sum(row[0].right <= begin + 1 and row[-1].left >= end - 1 for row in rows)
    n_sides = sum(row[-1].right <= begin + 1 or row[0].left >= end - 1 for row in rows)
    is_wide_enough = min(begin - left, right - end) > 0.18 * (right - left)
    if n_both + n_sides < 0.5 * len(rows) or not is_wide_enough:
        return None
    return _Gutter(begin, end)


def _whites(
    rows: Sequence[Sequence[Piece]], band: tuple[float, float], width: float
) -> list[tuple[float, float]]:
    """Return where so wide a stretch has fewest pieces over it, wherever these begin and end."""
    events = [(x, step) for row in rows for p in row for x, step in ((p.left, 1), (p.right, -1))]
    events.sort()
    depth, stretches = 0, list[tuple[float, float, int]]()
    for (at, step), (following, _) in pairwise(events):
        depth += step
        if following > at:
            stretches.append((at, following, depth))
    for most in sorted({depth for *_, depth in stretches}):
        if most > _MOST_SPANNING * len(rows):
            break
        found = list[tuple[float, float]]()
        for is_white, run in groupby(stretches, key=lambda one: one[2] <= most):
            held = list(run)
            begin, end = held[0][0], held[-1][1]
            if is_white and begin < band[1] and end > band[0] and end - begin >= width:
                found.append((begin, end))
        if found:
            return found
    return []


def _are_prose(rows: Sequence[Sequence[Piece]], gutter: _Gutter) -> bool:
    for side in ("left", "right"):
        lines = [[p for p in row if gutter.side(p) == side] for row in rows]
        lines = [line for line in lines if line]
        if len(lines) < 4:
            return False
        low, high = min(line[0].left for line in lines), max(line[-1].right for line in lines)
        full = sum(line[-1].right - line[0].left > 0.75 * (high - low) for line in lines)
        wordy = sum(count_words(line) >= 4 for line in lines)
        if min(full, wordy) < 0.55 * len(lines):
            return False
    return True


def _by_column(rows: Sequence[Sequence[Piece]], gutter: _Gutter) -> list[tuple[str, list[Piece]]]:
    """Return runs from top to bottom: left, then right, between what reaches over both."""
    runs: list[tuple[str, list[Piece]]] = []
    held: dict[str, list[Piece]] = {"left": [], "right": []}
    for row in rows:
        if any(gutter.side(piece) == "both" for piece in row):
            runs += [(side, run) for side, run in held.items() if run]
            held = {"left": [], "right": []}
            runs.append(("both", list(row)))
            continue
        for piece in row:
            held[gutter.side(piece)].append(piece)
    return runs + [(side, run) for side, run in held.items() if run]


def _with_tables(runs: list[tuple[str, list[Piece]]]) -> list[tuple[str, list[Piece]]]:
    """Return the runs with those joined that go to and fro in small steps: rows of a table."""
    out: list[tuple[str, list[Piece]]] = []
    at = 0
    while at < len(runs):
        end = at
        while end < len(runs) and len(runs[end][1]) <= 3 * _FEW:
            end += 1
        if end - at >= 2 * _N_TURNS:
            out.append(("both", [piece for _, run in runs[at:end] for piece in run]))
            at = end
        else:
            out.append(runs[at])
            at += 1
    return out


def _is_read_down(runs: Sequence[tuple[str, list[Piece]]]) -> bool:
    """Return whether there are two columns, and prose in one of them at least."""
    n_prose = 0
    for side in ("left", "right"):
        pieces = [piece for name, run in runs if name == side for piece in run]
        rows = to_rows(pieces)
        if len(rows) < 3:
            return False
        n_prose += sum(count_words([piece]) >= 4 for piece in pieces) >= 0.3 * len(pieces)
        # Wide blanks of a justified line part its words, but not as far as cells.
        n_prose += sum(map(_is_loose_line, rows)) >= 0.3 * len(rows)
    return n_prose > 0


def _is_loose_line(row: Sequence[Piece]) -> bool:
    gaps = (right.left - left.right for left, right in pairwise(row))
    return count_words(row) >= 4 and max(gaps, default=0.0) < _LOOSE * row[0].size
