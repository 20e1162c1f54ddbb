"""Where the words of arrows stand. In: the lines of arrows, sizes and boxes. Out: a point for each.

Words are put on their own line, where they cover no box, no other words and the least of other
lines: the greedy form of point-feature labelling (Christensen, Marks and Shieber 1995).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
            self.left < other.right and other.left < self.right
            and self.top < other.bottom and other.top < self.bottom
        )  # fmt: skip

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
