"""Image files decoded: every mode becomes what people see, and what is damaged says so."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from rag.core.errors import DocumentError
from rag.stages.parse.ocr.images import image_picture
from tests import scans


def page() -> Image.Image:
    return scans.paper(scans.lines(["The pump is serviced."])).crop((0, 0, 600, 300)).convert("L")


def made(mode: str) -> Image.Image:
    grey = page()
    if mode == "I;16":
        deep = b"".join(bytes((0, one)) for one in grey.tobytes())
        return Image.frombytes("I;16", grey.size, deep)
    if mode == "LA":
        # Black letters on nothing at all.
        nothing = Image.new("L", grey.size, 0)
        return Image.merge("LA", (nothing, grey.point(lambda one: 255 - one)))
    return grey.convert("F") if mode == "F" else grey.convert("RGB").convert(mode)


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("CMYK", "JPEG"),
        ("CMYK", "TIFF"),
        ("I;16", "PNG"),
        ("1", "TIFF"),
        ("P", "GIF"),
        ("LA", "PNG"),
        ("RGBA", "WEBP"),
        ("F", "TIFF"),
    ],
)
def test_every_mode_is_seen_as_it_was(mode: str, kind: str) -> None:
    data = scans.as_bytes(made(mode), kind)
    pixels = image_picture(io.BytesIO(data), f"a.{kind}", 1).pixels
    wanted = np.asarray(page().convert("RGB"), dtype=float)
    assert pixels.shape == wanted.shape and pixels.dtype == np.uint8
    # Black and white alone dithers, the others keep each shade; no letter is lost or turned over.
    assert np.abs(pixels.astype(float) - wanted).mean() < (12 if mode == "1" else 4)
    assert wanted.std() > 20


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP"])
def test_half_of_a_picture_is_damaged(kind: str) -> None:
    whole = scans.as_bytes(page().convert("RGB"), kind)
    with pytest.raises(DocumentError, match="damaged"):
        image_picture(io.BytesIO(whole[: len(whole) // 2]), f"a.{kind}", 1)
