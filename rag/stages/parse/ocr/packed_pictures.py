"""Pictures within Word and PowerPoint files: which of them are worth OCR."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path, PurePosixPath

from rag.core.errors import DocumentError
from rag.stages.parse.ocr.images import image_picture, image_size
from rag.stages.parse.ocr.recognize import PagePicture

_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp")
_MAX_PICTURES, _MAX_BYTES = 1_000, 50 * 1024**2
# Smaller ones are signs and ornaments.
_MIN_SIDE, _MIN_PIXELS = 40, 20_000


def list_pictures(path: Path) -> list[str]:
    """Return the members of a package that are pictures, in order; their places are numbers."""
    with zipfile.ZipFile(path) as bundle:
        found = [
            member.filename
            for member in bundle.infolist()
            if "/media/" in member.filename
            and PurePosixPath(member.filename).suffix.lower() in _SUFFIXES
            and member.file_size <= _MAX_BYTES
        ]
    return found[:_MAX_PICTURES]


def pictures_for_ocr(path: Path) -> Iterator[int]:
    """Yield the numbers of the pictures that may hold words, from 1."""
    with zipfile.ZipFile(path) as bundle:
        for number, member in enumerate(list_pictures(path), 1):
            try:
                width, height = image_size(BytesIO(bundle.read(member)), member)
            except DocumentError:
                continue
            if min(width, height) >= _MIN_SIDE and width * height >= _MIN_PIXELS:
                yield number


def packed_picture(path: Path, number: int) -> PagePicture:
    """Return a picture by its number; raise DocumentError where it cannot be decoded."""
    member = list_pictures(path)[number - 1]
    with zipfile.ZipFile(path) as bundle:
        made = image_picture(BytesIO(bundle.read(member)), member, 1)
    return PagePicture(number, made.pixels, made.width, made.height)
