"""Graph drawing: a directed graph as SVG, its texts escaped.

Layers from top to bottom (Sugiyama, Tagawa and Toda 1981): cycles are cut by a depth-first search,
layers are longest paths, and the order within one is that of the neighbours' average.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from unicodedata import east_asian_width
from xml.sax.saxutils import escape, quoteattr

START, END = "START", "END"

Point = tuple[float, float]
STEPS = 12
# What words would stand on: better many lines than one box or other words.
_BOX, _WORDS = 1000, 300


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle by its left, top, right and bottom edge."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Rect) -> bool:
        """Return whether both have an inner point in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def holds(self, point: Point) -> bool:
        """Return whether a point lies in it."""
        return self.left <= point[0] <= self.right and self.top <= point[1] <= self.bottom


def curve_points(curve: Sequence[Point]) -> Iterator[Point]:
    """Yield points along a cubic Bezier curve, which its four points say."""
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = curve
    for step in range(STEPS + 1):
        t = step / STEPS
        a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
        yield a * x0 + b * x1 + c * x2 + d * x3, a * y0 + b * y1 + c * y2 + d * y3


def place_labels(
    lines: Sequence[Sequence[Point]], sizes: Sequence[Point | None], boxes: Sequence[Rect]
) -> list[Point | None]:
    """Return the middle of each line's words, None where ``sizes``, width and height, is None."""
    placed: list[Rect] = []
    found: list[Point | None] = []
    for number, (line, size) in enumerate(zip(lines, sizes, strict=True)):
        if size is None:
            found.append(None)
            continue
        others = [point for n, other in enumerate(lines) if n != number for point in other]
        costs = []
        for at, point in enumerate(line):
            words = _around(point, size)
            cost = _BOX * sum(words.meets(box) for box in boxes)
            cost += _WORDS * sum(words.meets(other) for other in placed)
            cost += sum(words.holds(other) for other in others)
            # Of equal places the one nearest to the first curve's middle.
            costs.append((cost, abs(at - STEPS // 2), point))
        _, _, best = min(costs)
        placed.append(_around(best, size))
        found.append(best)
    return found


def _around(point: Point, size: Point) -> Rect:
    (x, y), (width, height) = point, size
    return Rect(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


HEIGHT, LAYER_GAP, GAP, PADDING = 44, 76, 52, 24
MAX_LABEL, MAX_NAME, PASSAGE = 34, 28, 80.0
_SWEEPS = 6


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A box: ``kind`` stands below its name; ``state`` is a word that the stylesheet colours."""

    name: str
    kind: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An arrow; a ``label`` makes it dashed, ``is_taken`` marks it."""

    source: str
    target: str
    label: str = ""
    is_taken: bool = False


def draw_graph(nodes: Sequence[GraphNode], edges: Sequence[GraphEdge], title: str = "") -> str:
    """Return an SVG element; edges between unknown nodes are left out."""
    known = {node.name: node for node in nodes}
    kept = [edge for edge in edges if edge.source in known and edge.target in known]
    depth = _depths(list(known), kept)
    ways = [_way(number, edge, depth) for number, edge in enumerate(kept)]
    places, width = _places(_layers(depth, ways), known)
    height = PADDING * 2 + (max(depth.values(), default=0) + 1) * (HEIGHT + LAYER_GAP) - LAYER_GAP
    # Ways back run along the right side.
    whole = width + (40 if any(depth[way[0]] >= depth[way[-1]] for way in ways) else 0)
    curves = [_curves(way, places, width) for way in ways]
    lines = [[point for curve in one for point in curve_points(curve)] for one in curves]
    sizes = [_label_size(edge) for edge in kept]
    beyond = [Rect(-height, -height, 0, height * 2), Rect(whole, -height, whole * 2, height * 2)]
    middles = ((x, top + HEIGHT / 2, wide) for x, top, wide in (places[name] for name in known))
    boxes = [*beyond, *(_around((x, y), (wide, HEIGHT)) for x, y, wide in middles)]
    # A label lies over all lines, so that none strikes it through.
    drawn = [_line(edge, one) for edge, one in zip(kept, curves, strict=True)]
    drawn += [_box(known[name], *places[name]) for name in known]
    spots = place_labels(lines, sizes, boxes)
    drawn += [_label(edge, at) for edge, at in zip(kept, spots, strict=True) if at is not None]
    return (
        f'<svg class="graph" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label={quoteattr(title)} viewBox="0 0 {whole:.0f} {height:.0f}" '
        f'width="{whole:.0f}" height="{height:.0f}">{_ARROW}{"".join(drawn)}</svg>'
    )


_ARROW = (
    '<defs><marker id="graph-arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" '
    'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
    '<path d="M0 0L10 5L0 10z" '
    'class="graph-head"/></marker></defs>'
)


def _depths(names: list[str], edges: Sequence[GraphEdge]) -> dict[str, int]:
    after: dict[str, list[str]] = defaultdict(list)
    for edge in edges:
        after[edge.source].append(edge.target)
    order = _topological(names, after)
    rank = {name: at for at, name in enumerate(order)}
    depth = dict.fromkeys(names, 0)
    for name in order:
        for target in after[name]:
            # What leads back closes a cycle and pulls nothing down.
            if rank[target] > rank[name]:
                depth[target] = max(depth[target], depth[name] + 1)
    return depth


def _way(number: int, edge: GraphEdge, depth: dict[str, int]) -> list[str]:
    """Return the nodes that an arrow passes: in each layer between its ends a place of its own."""
    between = range(depth[edge.source] + 1, depth[edge.target])
    passed = [f"\0{number}.{layer}" for layer in between]
    depth.update(zip(passed, between, strict=True))
    return [edge.source, *passed, edge.target]


def _layers(depth: Mapping[str, int], ways: Sequence[Sequence[str]]) -> list[list[str]]:
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for name, layer in depth.items():
        layers[layer].append(name)
    before, after = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for way in ways:
        for source, target in pairwise(way):
            if depth[source] < depth[target]:
                after[source].append(target)
                before[target].append(source)
    for sweep in range(_SWEEPS):
        near = after if sweep % 2 else before
        at = {name: (i + 0.5) / len(layer) for layer in layers for i, name in enumerate(layer)}
        for row in layers[:: -1 if sweep % 2 else 1]:
            means = {name: fmean([at[n] for n in near[name]] or [at[name]]) for name in row}
            row.sort(key=means.__getitem__)
            at |= {name: (i + 0.5) / len(row) for i, name in enumerate(row)}
    return layers


def _topological(names: list[str], after: Mapping[str, list[str]]) -> list[str]:
    """Return the reverse of the order in which a depth-first search leaves the nodes."""
    left: dict[str, None] = {}
    seen: set[str] = set()
    for root in names:
        stack = [(root, iter(after[root]))] if root not in seen else []
        seen.add(root)
        while stack:
            name, rest = stack[-1]
            following = next((target for target in rest if target not in seen), None)
            if following is None:
                left[name] = None
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(after[following])))
    return list(left)[::-1]


def _places(
    layers: list[list[str]], known: Mapping[str, GraphNode]
) -> tuple[dict[str, tuple[float, float, float]], float]:
    """Return the middle, top and width of each box, and how wide the picture is."""
    widths = {
        name: max(90.0, _width(_cut(name, MAX_NAME)) + 28) if name in known else PASSAGE
        for layer in layers
        for name in layer
    }
    rows = [sum(widths[name] for name in layer) + GAP * (len(layer) - 1) for layer in layers]
    whole = max(rows, default=0) + 2 * PADDING
    places = {}
    for number, (layer, row) in enumerate(zip(layers, rows, strict=True)):
        x = (whole - row) / 2
        for name in layer:
            top = PADDING + number * (HEIGHT + LAYER_GAP)
            places[name] = (x + widths[name] / 2, float(top), widths[name])
            x += widths[name] + GAP
    return places, whole


def _curves(
    way: Sequence[str], places: Mapping[str, tuple[float, float, float]], width: float
) -> list[list[Point]]:
    """Return an arrow as cubic curves, from the bottom of each place to the top of the next."""
    (x1, top1, wide1), (x2, top2, wide2) = places[way[0]], places[way[-1]]
    if top2 <= top1:
        a, b, out = top1 + HEIGHT / 2, top2 + HEIGHT / 2, width + 24
        right1, right2 = x1 + wide1 / 2, x2 + wide2 / 2
        return [[(right1, a), (out, a), (out, b), (right2, b)]]
    curves: list[list[Point]] = []
    for (x, top, _), (next_x, next_top, _) in pairwise(places[name] for name in way):
        y = top + HEIGHT
        bend = (next_top - y) / 2
        curves.append([(x, y), (x, y + bend), (next_x, next_top - bend), (next_x, next_top)])
    return curves


def _line(edge: GraphEdge, curves: Sequence[Sequence[Point]]) -> str:
    line = ""
    for start, *bends in curves:
        line += f"{'L' if line else 'M'}{start[0]:.0f} {start[1]:.0f}C"
        line += " ".join(f"{x:.0f} {y:.0f}" for x, y in bends)
    names = ["graph-edge", *(["graph-choice"] if edge.label else [])]
    names += ["graph-taken"] if edge.is_taken else []
    return f'<path class="{" ".join(names)}" d="{line}" marker-end="url(#graph-arrow)"/>'


def _label_size(edge: GraphEdge) -> Point | None:
    # Its text has 11 pixels where a name has 13.
    wide = _width(_cut(edge.label, MAX_LABEL)) * 11 / 13
    return (wide + 6, 15.0) if edge.label else None


def _label(edge: GraphEdge, at: Point) -> str:
    text = escape(_cut(edge.label, MAX_LABEL))
    # Its middle stands there; a text is placed by its base line.
    return (
        f'<text class="graph-label" x="{at[0]:.0f}" y="{at[1] + 4:.0f}">{text}'
        f"<title>{escape(edge.label)}</title></text>"
    )


def _box(node: GraphNode, x: float, top: float, width: float) -> str:
    kind = (
        f'<text class="graph-kind" x="{x:.0f}" y="{top + 34:.0f}">{escape(node.kind)}</text>'
        if node.kind
        else ""
    )
    look = quoteattr(f"graph-node graph-{node.state or 'plain'}")
    middle = top + (19 if node.kind else 26)
    return (
        f"<g class={look}>"
        f'<rect x="{x - width / 2:.0f}" y="{top:.0f}" width="{width:.0f}" height="{HEIGHT}" '
        f'rx="8"/>'
        f'<text x="{x:.0f}" y="{middle:.0f}">{escape(_cut(node.name, MAX_NAME))}'
        f"<title>{escape(node.name)}</title></text>{kind}</g>"
    )


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _width(text: str) -> float:
    """Return about how wide a text of 13 pixels is."""
    return sum(13.5 if east_asian_width(letter) in "WF" else 7.6 for letter in text)
