"""SVG charts: line and bar charts as coordinates for a template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Three stand side by side: their words must be readable at 300 pixels.
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 320, 150, 50, 24, 10
CLASSES = ("first", "second", "third")
MAX_LABELS = 5


def line_chart(
    title: Any,
    labels: Sequence[str],
    series: Mapping[Any, Sequence[float | None]],
    *,
    top: float | None = None,
    unit: str = "",
) -> dict[str, Any]:
    """Return a chart of up to three series; None is a gap; ``top`` None scales to the values."""
    top = top or _round_up(max((v for row in series.values() for v in row if v), default=1.0))
    lines = [
        {"name": name, "class": kind, "points": _points(labels, row, top, unit)}
        for kind, (name, row) in zip(CLASSES, series.items(), strict=False)
    ]
    for line in lines:
        line["path"] = " ".join(f"{point['x']},{point['y']}" for point in line["points"])
    return {**_frame(title, labels, top, unit), "lines": lines, "bars": []}


def bar_chart(title: Any, bars: Sequence[tuple[str, float]], *, unit: str = "") -> dict[str, Any]:
    """Return a bar for each label."""
    labels = [label for label, _ in bars]
    top = _round_up(max((value for _, value in bars), default=1.0))
    step = (WIDTH - LEFT) / max(1, len(bars))
    shown = [
        {
            "x": round(LEFT + n * step + step * 0.15, 1),
            "width": round(step * 0.7, 1),
            "y": _y(value, top),
            "height": round(HEIGHT - BOTTOM - _y(value, top), 1),
            "said": f"{label}: {value:g}{unit}",
        }
        for n, (label, value) in enumerate(bars)
    ]
    return {**_frame(title, labels, top, unit), "bars": shown, "lines": []}


def _frame(title: Any, labels: Sequence[str], top: float, unit: str) -> dict[str, Any]:
    every = max(1, -(-len(labels) // MAX_LABELS))
    step = (WIDTH - LEFT) / max(1, len(labels))
    return {
        "title": title,
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "base": HEIGHT - BOTTOM,
        "is_empty": not labels,
        "marks": [
            {"x": round(LEFT + (n + 0.5) * step, 1), "text": label}
            for n, label in enumerate(labels)
            if n % every == 0
        ],
        "levels": [
            {"y": _y(top * share, top), "text": f"{top * share:g}{unit}"} for share in (0, 0.5, 1)
        ],
    }


def _points(
    labels: Sequence[str], row: Sequence[float | None], top: float, unit: str
) -> list[dict[str, Any]]:
    step = (WIDTH - LEFT) / max(1, len(labels))
    return [
        {
            "x": round(LEFT + (n + 0.5) * step, 1),
            "y": _y(value, top),
            "said": f"{label}: {value:.4g}{unit}",
        }
        for n, (label, value) in enumerate(zip(labels, row, strict=True))
        if value is not None
    ]


def _y(value: float, top: float) -> float:
    room = HEIGHT - BOTTOM - TOP
    return round(TOP + room * (1 - min(1.0, max(0.0, value / top))), 1)


def _round_up(value: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten."""
    size = 1.0
    while size < value:
        size *= 10
    while size / 10 >= value > 0:
        size /= 10
    return next((size * share for share in (0.1, 0.2, 0.5) if size * share >= value), size)
