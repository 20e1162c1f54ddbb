"""Image files: their pages, decoded within limits and as people see them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from rag.core.errors import DocumentError
from rag.stages.detect.file_errors import damaged_file
from rag.stages.parse.ocr.recognize import PagePicture

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What is decoded at all, and what a page is made smaller to.
MAX_PIXELS, MOST_USED = 100_000_000, 24_000_000
_DPI = 200
_ANIMATED = ("GIF", "WEBP", "PNG")
# Looked at in read_frame, in one sentence for all formats.
Image.MAX_IMAGE_PIXELS = None


def image_picture(path: Path | IO[bytes], name: str, number: int) -> PagePicture:
    """Return a page of an image as a picture; raise DocumentError for a broken one."""
    pixels = np.asarray(read_frame(path, name, number))[:, :, ::-1].copy()
    return PagePicture(number, pixels, *_size(pixels.shape[1], pixels.shape[0]))


def _size(width: int, height: int) -> tuple[float, float]:
    """Return the points of an image: as if it were scanned at the usual resolution."""
    return width * 72 / _DPI, height * 72 / _DPI


@contextmanager
def _opened(path: Path | IO[bytes], name: str) -> Iterator[Image.Image]:
    """Lend an image that is not decoded yet; raise DocumentError for a broken one."""
    try:
        with Image.open(path) as image:
            yield image
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError, OverflowError) as e:
        raise damaged_file(name) from e


def image_size(content: IO[bytes], name: str) -> tuple[int, int]:
    """Return width and height in pixels by its head; raise DocumentError for a broken one."""
    with _opened(content, name) as image:
        return image.size


def count_frames(path: Path, name: str) -> int:
    """Return how many pages an image has; one of what moves."""
    with _opened(path, name) as image:
        return 1 if image.format in _ANIMATED else int(getattr(image, "n_frames", 1))


def is_animated(path: Path, name: str) -> bool:
    """Return whether an image moves, so that one of its pictures stands for all."""
    with _opened(path, name) as image:
        return image.format in _ANIMATED and getattr(image, "n_frames", 1) > 1


def read_frame(path: Path | IO[bytes], name: str, number: int) -> Image.Image:
    """Return a page of an image as people see it: turned as its camera says, in RGB.

    Raises DocumentError for a broken one and for more than 100 million pixels.
    """
    with _opened(path, name) as image:
        image.seek(number - 1)
        if image.width * image.height > MAX_PIXELS:
            raise DocumentError(
                "“{name}” has {width} × {height} pixels.",
                hint="Make it smaller: at most {limit} million are read.",
                name=name,
                width=image.width,
                height=image.height,
                limit=MAX_PIXELS // 1_000_000,
            )
        image.load()
        share = math.sqrt(MOST_USED / max(1, image.width * image.height))
        frame = _in_colours(image)
        if share < 1:
            size = max(1, int(frame.width * share)), max(1, int(frame.height * share))
            frame = frame.resize(size, Image.Resampling.BOX)
        frame.info["exif"] = image.info.get("exif", b"")
        orientation = image.getexif().get(0x0112, 1)
        if orientation != 1:
            frame.getexif()[0x0112] = orientation
            frame = ImageOps.exif_transpose(frame)
        return frame


def _in_colours(image: Image.Image) -> Image.Image:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _from_deep(image)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        paper = Image.new("RGB", layer.size, (255, 255, 255))
        paper.paste(layer, mask=layer.getchannel("A"))
        return paper
    return image.convert("RGB")


def _from_deep(image: Image.Image) -> Image.Image:
    """Return a picture of 16 or 32 bits a pixel, from its darkest to its lightest."""
    deep: NDArray[np.float32] = np.asarray(image, dtype=np.float32)
    low, high = float(deep.min()), float(deep.max())
    shallow = (deep - low) * (255 / max(high - low, 1e-6))
    return Image.fromarray(shallow.astype(np.uint8)).convert("RGB")
