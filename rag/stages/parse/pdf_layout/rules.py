"""PDF rules: the straight strokes of a page, and the grids that they draw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from ctypes import byref, c_float, c_int
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pypdfium2 as pdfium
from pypdfium2 import raw

# Thinner shapes are strokes, in points; ends that are nearer to a stroke touch it.
_THIN, _TOUCH = 3.0, 3.0
_LEAST = 6.0
_RECT = 6
MAX_OBJECTS, MAX_RULES, MAX_POINTS = 50_000, 4_000, 20_000
_DEPTH = 3

Matrix = tuple[float, float, float, float, float, float]
Rect = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Grid:
    """Strokes that cross: where its columns and rows begin, and the strokes between them.

    ``bars`` are (x, top, bottom), ``beams`` (y, left, right).
    """

    xs: tuple[float, ...]
    ys: tuple[float, ...]
    bars: tuple[tuple[float, float, float], ...]
    beams: tuple[tuple[float, float, float], ...]


def read_rules(page: pdfium.PdfPage) -> list[Rect]:
    """Return left, bottom, right and top of each thin shape and straight edge of a page."""
    rules: list[Rect] = []
    for shape, matrix in _shapes(page):
        rules += _edges(shape, matrix)
        if len(rules) > MAX_POINTS:
            # A drawing, or an attack.
            return []
    return rules


def _shapes(page: pdfium.PdfPage) -> Iterator[tuple[raw.FPDF_PAGEOBJECT, Matrix]]:
    left = MAX_OBJECTS
    stack: list[tuple[Iterator[raw.FPDF_PAGEOBJECT], Matrix]] = [
        (_objects(page, None), (1, 0, 0, 1, 0, 0))
    ]
    while stack and left > 0:
        item = next(stack[-1][0], None)
        if item is None:
            stack.pop()
            continue
        left -= 1
        kind = raw.FPDFPageObj_GetType(item)
        if kind == raw.FPDF_PAGEOBJ_PATH:
            yield item, stack[-1][1]
        elif kind == raw.FPDF_PAGEOBJ_FORM and len(stack) < _DEPTH:
            stack.append((_objects(page, item), _times(_matrix(item), stack[-1][1])))


def _objects(page: pdfium.PdfPage, form: raw.FPDF_PAGEOBJECT) -> Iterator[raw.FPDF_PAGEOBJECT]:
    if form is None:
        for index in range(raw.FPDFPage_CountObjects(page)):
            yield raw.FPDFPage_GetObject(page, index)
    else:
        for index in range(raw.FPDFFormObj_CountObjects(form)):
            yield raw.FPDFFormObj_GetObject(form, index)


def _matrix(item: raw.FPDF_PAGEOBJECT) -> Matrix:
    found = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(item, byref(found)):
        return 1, 0, 0, 1, 0, 0
    return found.a, found.b, found.c, found.d, found.e, found.f


def _times(one: Matrix, other: Matrix) -> Matrix:
    a, b, c, d, e, f = one
    g, h, i, j, k, m = other
    return (
        a * g + b * i,
        a * h + b * j,
        c * g + d * i,
        c * h + d * j,
        e * g + f * i + k,
        e * h + f * j + m,
    )


def _edges(shape: raw.FPDF_PAGEOBJECT, outer: Matrix) -> Iterator[Rect]:
    """Yield the straight edges of a path that is stroked, and its thin parts."""
    n_segments = raw.FPDFPath_CountSegments(shape)
    if n_segments > MAX_POINTS:
        return
    fill, stroke = c_int(), c_int()
    raw.FPDFPath_GetDrawMode(shape, byref(fill), byref(stroke))
    if not fill.value and not stroke.value:
        return
    matrix = _times(_matrix(shape), outer)
    for points in _subpaths(shape, n_segments, matrix):
        xs, ys = [x for x, _ in points], [y for _, y in points]
        whole = (min(xs), min(ys), max(xs), max(ys))
        if _is_thin(whole):
            yield whole
        elif stroke.value or len(points) <= _RECT:
            # The borders of a coloured field part cells as well as strokes do.
            for (x, y), (u, v) in pairwise(points):
                edge = (min(x, u), min(y, v), max(x, u), max(y, v))
                if _is_thin(edge, 0.5):
                    yield edge


def _is_thin(rect: Rect, thin: float = _THIN) -> bool:
    width, height = rect[2] - rect[0], rect[3] - rect[1]
    return min(width, height) <= thin and max(width, height) >= _LEAST


def _subpaths(
    shape: raw.FPDF_PAGEOBJECT, n_segments: int, matrix: Matrix
) -> Iterator[list[tuple[float, float]]]:
    a, b, c, d, e, f = matrix
    x, y = c_float(), c_float()
    points: list[tuple[float, float]] = []
    for index in range(n_segments):
        segment = raw.FPDFPath_GetPathSegment(shape, index)
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO and points:
            yield points
            points = []
        raw.FPDFPathSegment_GetPoint(segment, byref(x), byref(y))
        points.append((a * x.value + c * y.value + e, b * x.value + d * y.value + f))
        if raw.FPDFPathSegment_GetClose(segment):
            points.append(points[0])
    if points:
        yield points


def find_beams(rules: Sequence[Rect]) -> list[tuple[float, float, float]]:
    """Return (y, left, right) of each level stroke, from top to bottom."""
    return _merged([((y + v) / 2, x, u) for x, y, u, v in rules if u - x >= v - y])


def find_grids(rules: Sequence[Rect]) -> list[Grid]:
    """Return the grids of strokes, given as upright boxes: left, top, right, bottom."""
    beams = find_beams(rules)
    bars = _merged([((x + u) / 2, y, v) for x, y, u, v in rules if u - x < v - y])
    if not beams or not bars or max(len(beams), len(bars)) > MAX_RULES:
        return []
    across, down = np.array(beams), np.array(bars)
    touches = (
        (down[None, :, 0] >= across[:, None, 1] - _TOUCH)
        & (down[None, :, 0] <= across[:, None, 2] + _TOUCH)
        & (across[:, None, 0] >= down[None, :, 1] - _TOUCH)
        & (across[:, None, 0] <= down[None, :, 2] + _TOUCH)
    )
    grids = []
    for rows, columns in _connected(touches):
        grid_beams, grid_bars = [beams[at] for at in rows], [bars[at] for at in columns]
        xs = _distinct([x for x, _, _ in grid_bars] + [x for _, *ends in grid_beams for x in ends])
        ys = _distinct([y for y, _, _ in grid_beams] + [y for _, *ends in grid_bars for y in ends])
        if len(xs) > 2 and len(ys) > 1:
            grids.append(Grid(xs, ys, tuple(grid_bars), tuple(grid_beams)))
    return grids


def _merged(strokes: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Return strokes of one line that touch each other as one."""
    strokes.sort()
    lanes: list[list[tuple[float, float, float]]] = []
    for stroke in strokes:
        if lanes and stroke[0] - lanes[-1][0][0] <= _TOUCH / 2:
            lanes[-1].append(stroke)
        else:
            lanes.append([stroke])
    out: list[tuple[float, float, float]] = []
    for lane in lanes:
        lane.sort(key=lambda stroke: stroke[1])
        at, start, end = lane[0]
        for _, low, high in lane[1:]:
            if low <= end + _TOUCH:
                end = max(end, high)
            else:
                out.append((at, start, end))
                start, end = low, high
        out.append((at, start, end))
    return [stroke for stroke in out if stroke[2] - stroke[1] >= _LEAST]


def _distinct(values: list[float]) -> tuple[float, ...]:
    out: list[float] = []
    for value in sorted(values):
        if not out or value - out[-1] > 2 * _TOUCH:
            out.append(value)
    return tuple(out)


def _connected(touches: np.ndarray) -> Iterator[tuple[list[int], list[int]]]:
    """Yield rows and columns that hang together."""
    n_rows = len(touches)
    seen: set[int] = set()
    by_row: dict[int, list[int]] = defaultdict(list)
    by_column: dict[int, list[int]] = defaultdict(list)
    for row, column in np.argwhere(touches).tolist():
        by_row[row].append(n_rows + column)
        by_column[n_rows + column].append(row)
    for start in list(by_row):
        if start in seen:
            continue
        seen.add(start)
        todo, found = [start], [start]
        while todo:
            node = todo.pop()
            for other in by_row[node] if node < n_rows else by_column[node]:
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
                    found.append(other)
        yield (
            sorted(node for node in found if node < n_rows),
            sorted(node - n_rows for node in found if node >= n_rows),
        )
