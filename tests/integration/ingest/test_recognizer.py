"""Sandboxed OCR: bad pictures end in a sentence, and a child that dies takes no page along."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image

from rag.core.errors import DocumentError
from rag.core.ocr.scans import PageWords
from rag.providers.sandbox.parser import SandboxedParser
from rag.providers.sandbox.recognizer import SandboxedRecognizer
from tests import scans

pytest.importorskip("rapidocr")
pytestmark = pytest.mark.slow
TEXT = ["The pump is serviced every 30 days.", "The filter costs 45 yuan."]
MB = 1024**2


def recognized(
    data: bytes, name: str, folder: Path, by: SandboxedRecognizer | None = None
) -> list[PageWords]:
    path = folder / "file"
    path.write_bytes(data)
    pages: list[PageWords] = []
    (by or SandboxedRecognizer(threads=1)).recognize(
        path, name, known=(), on_page=lambda page, n: pages.append(page)
    )
    return pages


def page() -> Image.Image:
    return scans.paper(scans.lines(TEXT)).crop((0, 0, 1000, 600))


def png_of(width: int, height: int) -> bytes:
    """Return a PNG whose head promises more than its few bytes should hold."""

    def part(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes((width + 7) // 8)) * height, 9)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", rows) + part(b"IEND", b"")


def test_a_picture_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="has 30000 × 30000 pixels"):
        recognized(png_of(30_000, 30_000), "bomb.png", tmp_path)


def test_a_damaged_picture_is_told_by_the_child(tmp_path: Path) -> None:
    whole = scans.as_bytes(page(), "JPEG")
    with pytest.raises(DocumentError, match="damaged"):
        recognized(whole[: len(whole) // 2], "a.jpg", tmp_path)


def test_a_photograph_is_turned_as_its_camera_says(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = scans.as_bytes(page().rotate(90, expand=True), "JPEG", exif=exif)
    (found,) = recognized(data, "a.jpg", tmp_path)
    assert found.width > found.height and {word.turn for word in found.words} == {0}
    assert "serviced every 30 days" in found.text


def test_an_animation_is_its_first_picture_and_says_so(tmp_path: Path) -> None:
    out = io.BytesIO()
    page().save(out, "GIF", save_all=True, append_images=[Image.new("RGB", (1000, 600))] * 3)
    pages = recognized(out.getvalue(), "a.gif", tmp_path)
    document = SandboxedParser().parse(
        tmp_path / "file", "a.gif", recognized=[(1, pages[0].to_json())]
    )
    assert len(pages) == 1 and "filter costs" in document.text
    assert [str(one) for one in document.warnings] == ["It moves: only its first picture is read."]


def test_every_page_of_a_tiff_is_read_and_an_empty_one_is_none(tmp_path: Path) -> None:
    out = io.BytesIO()
    page().save(
        out, "TIFF", save_all=True, append_images=[Image.new("RGB", (900, 700), "white"), page()]
    )
    pages = recognized(out.getvalue(), "a.tif", tmp_path)
    kept = [(one.number, one.to_json()) for one in pages]
    document = SandboxedParser().parse(tmp_path / "file", "a.tif", recognized=kept)
    assert document.kind == "tiff" and [bool(one.end > one.start) for one in document.pages] == [
        True,
        False,
        True,
    ]
    with pytest.raises(DocumentError, match="No words were recognized"):
        SandboxedParser().parse(
            tmp_path / "file",
            "a.tif",
            recognized=[(n, PageWords(n, 9, 9).to_json()) for n in (1, 2, 3)],
        )


def test_an_image_without_ocr_says_how_to_get_it(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(scans.as_bytes(page(), "PNG"))
    with pytest.raises(DocumentError, match="is an image") as caught:
        SandboxedParser().parse(path, "a.png")
    assert "pip install rapidocr==3.10.0" in str(caught.value)


def test_a_child_beyond_its_memory_costs_no_other_page(tmp_path: Path) -> None:
    pages = [page(), page()]
    by = SandboxedRecognizer(threads=1, memory_bytes=350 * MB)
    found = recognized(scans.scan_pdf(pages), "a.pdf", tmp_path, by)
    assert [(one.number, one.has_failed) for one in found] == [(1, True), (2, True)]


def test_a_child_that_hangs_is_ended(tmp_path: Path) -> None:
    by = SandboxedRecognizer(threads=1, stall_s=0.05)
    try:
        found = recognized(scans.scan_pdf([page()]), "a.pdf", tmp_path, by)
    except DocumentError as error:
        # Before it had begun a page.
        assert "its parser failed" in str(error)
    else:
        assert [(one.number, one.has_failed) for one in found] == [(1, True)]


def test_what_holds_no_picture_needs_no_engine(tmp_path: Path) -> None:
    assert recognized(b"Words alone.", "a.txt", tmp_path) == []
