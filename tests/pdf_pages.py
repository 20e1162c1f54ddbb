"""PDF pages drawn word by word: text at places, in sizes and turned, and rules, for layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.hostile_files import pdf, stream

WIDTH, HEIGHT = 595, 842
# Of Helvetica, in thousandths; letters about.
_WIDTHS = {" ": 278, ".": 278, ",": 278, "-": 333, "%": 889, "i": 222, "l": 222, "m": 833, "w": 722}


@dataclass(frozen=True)
class Text:
    """Words that begin at ``x``, ``y`` from the page's lower left corner."""

    x: float
    y: float
    text: str
    size: float = 10
    angle: float = 0

    def drawn(self) -> bytes:
        """Return it as operators of a content stream."""
        a, b = math.cos(math.radians(self.angle)), math.sin(math.radians(self.angle))
        place = f"{a:.4f} {b:.4f} {-b:.4f} {a:.4f} {self.x:.2f} {self.y:.2f} Tm"
        raw = self.text.encode("latin-1").replace(b"\\", b"\\\\")
        raw = raw.replace(b"(", b"\\(").replace(b")", b"\\)")
        return f"BT /F {self.size} Tf {place} (".encode() + raw + b") Tj ET"


@dataclass(frozen=True)
class Rule:
    """A stroke from one point to another."""

    x: float
    y: float
    to_x: float
    to_y: float

    def drawn(self) -> bytes:
        """Return it as operators of a content stream."""
        return f"0.5 w {self.x} {self.y} m {self.to_x} {self.to_y} l S".encode()


Drawn = Text | Rule


def drawn_pdf(pages: Sequence[Sequence[Drawn]], *, rotate: int = 0, width: int = WIDTH) -> bytes:
    """Return a document of pages, shown turned by ``rotate`` degrees."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    kids = []
    for page in pages:
        number = len(objects) + 1
        kids.append(f"{number} 0 R")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {HEIGHT}] /Rotate {rotate} "
            f"/Resources << /Font << /F 3 0 R >> >> /Contents {number + 1} 0 R >>".encode()
        )
        objects.append(stream(b"\n".join(item.drawn() for item in page)))
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    return pdf(objects)


def text_width(text: str, size: float = 10) -> float:
    """Return about how wide a text is."""
    return sum(_WIDTHS.get(character, 556) for character in text) * size / 1000


def cells(
    rows: Sequence[Sequence[str]],
    xs: Sequence[float],
    top: float,
    *,
    step: float = 16,
    right: Sequence[int] = (),
    size: float = 10,
) -> list[Drawn]:
    """Return rows of cells that begin at ``xs``; those of ``right`` end there."""
    out: list[Drawn] = []
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            if cell:
                shift = text_width(cell, size) if column in right else 0
                out.append(Text(xs[column] - shift, top - number * step, cell, size))
    return out


def grid(xs: Sequence[float], ys: Sequence[float]) -> list[Drawn]:
    """Return the strokes of a grid."""
    across: list[Drawn] = [Rule(xs[0], y, xs[-1], y) for y in ys]
    return [*across, *(Rule(x, ys[0], x, ys[-1]) for x in xs)]


def lines(
    texts: Sequence[str], x: float = 60, top: float = 780, *, step: float = 13, size: float = 10
) -> list[Drawn]:
    """Return lines of text below each other."""
    return [Text(x, top - at * step, text, size) for at, text in enumerate(texts)]
