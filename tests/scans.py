"""Made-up scans: lines drawn on paper as a scanner brings them, as images and PDFs of images."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

CHINESE = Path("/usr/share/fonts/opentype/noto/NotoSerifCJK-Regular.ttc")
SIZE = (1654, 2339)
Placed = Sequence[tuple[int, int, str]]


def font(size: int, *, is_chinese: bool = False) -> ImageFont.FreeTypeFont:
    """Return a font of some pixels; Chinese ones are the system's."""
    if is_chinese:
        return ImageFont.truetype(str(CHINESE), size, index=2)
    made = ImageFont.load_default(size)
    assert isinstance(made, ImageFont.FreeTypeFont)
    return made


def paper(placed: Placed, *, px: int = 34, is_chinese: bool = False) -> Image.Image:
    """Return an A4 page at 200 dpi with texts at their places."""
    page = Image.new("RGB", SIZE, "white")
    pen = ImageDraw.Draw(page)
    for left, top, text in placed:
        pen.text((left, top), text, font=font(px, is_chinese=is_chinese), fill=(25, 25, 25))
    return page


def lines(texts: Sequence[str], *, left: int = 200, top: int = 200, step: int = 60) -> Placed:
    """Return texts below each other."""
    return [(left, top + step * number, text) for number, text in enumerate(texts)]


def askew(page: Image.Image, degrees: float) -> Image.Image:
    """Return a page that lies a little turned on the scanner."""
    return page.rotate(degrees, Image.Resampling.BICUBIC, fillcolor="white")


def as_bytes(page: Image.Image, kind: str, **options: object) -> bytes:
    """Return an image file."""
    out = io.BytesIO()
    page.save(out, kind, **options)
    return out.getvalue()


def scan_pdf(pages: Sequence[Image.Image]) -> bytes:
    """Return a PDF whose pages are images and nothing else."""
    return as_bytes(pages[0], "PDF", save_all=True, append_images=list(pages[1:]), resolution=200)
