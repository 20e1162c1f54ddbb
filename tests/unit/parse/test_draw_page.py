"""A page as a picture, and where a quote stands on it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from rag.core.documents import MarkedQuote
from rag.core.errors import DocumentError
from rag.stages.draw_page import draw_page
from tests import hostile_files

LINES = [["The pump is serviced every 30 days.", "The filter costs 45 yuan."], ["Second page."]]


@pytest.fixture
def pdf(tmp_path: Path) -> Path:
    path = tmp_path / "a.pdf"
    path.write_bytes(hostile_files.text_pdf(LINES))
    return path


def pixels(png: bytes) -> tuple[int, int, bytes]:
    """Return width, height and the rows of a PNG without filters."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    at, data = 8, b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, part = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert (
            zlib.crc32(kind + part)
            == struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0]
        )
        data += part if kind == b"IDAT" else b""
        at += 12 + length
    return width, height, zlib.decompress(data)


def test_the_picture_is_a_png_with_dark_letters_on_white(pdf: Path) -> None:
    drawn = draw_page(pdf, "a.pdf", 1, MarkedQuote(""))
    width, height, rows = pixels(drawn.png)
    assert (width, height) == (drawn.width, drawn.height)
    n_row = len(rows) // height
    assert all(rows[y * n_row] == 0 for y in range(height))
    assert rows[1:4] == b"\xff\xff\xff" and min(rows[1:]) < 80 and drawn.boxes == ()


def test_a_box_lies_on_the_ink_of_its_words(pdf: Path) -> None:
    drawn = draw_page(pdf, "a.pdf", 1, MarkedQuote("pump is serviced every 30"))
    ((left, top, width, height),) = drawn.boxes
    _, n_rows, rows = pixels(drawn.png)
    n_row = len(rows) // n_rows
    channels = (n_row - 1) // drawn.width

    def ink(x1: float, y1: float, x2: float, y2: float) -> int:
        found = 0
        for y in range(int(y1 * n_rows), int(y2 * n_rows)):
            first = y * n_row + 1 + int(x1 * drawn.width) * channels
            found += sum(
                value < 128
                for value in rows[first : first + int((x2 - x1) * drawn.width) * channels]
            )
        return found

    assert ink(left, top, left + width, top + height) > 200
    assert ink(left, max(0.0, top - 3 * height), left + width, top - height) == 0


@pytest.mark.parametrize(
    "quote", ["THE PUMP is serviced\nevery 30 days", "The pump is ser-\nviced every “30” days。"]
)
def test_signs_lines_and_hyphens_make_no_difference(pdf: Path, quote: str) -> None:
    assert len(draw_page(pdf, "a.pdf", 1, MarkedQuote(quote)).boxes) == 1


def test_a_quote_over_two_lines_has_a_box_for_each(pdf: Path) -> None:
    boxes = draw_page(pdf, "a.pdf", 1, MarkedQuote("every 30 days. The filter costs")).boxes
    assert len(boxes) == 2 and boxes[0][1] < boxes[1][1]


def test_what_a_quote_leaves_out_has_no_box(pdf: Path) -> None:
    quote = "The pump is serviced every 30 days."
    (whole,) = draw_page(pdf, "a.pdf", 1, MarkedQuote(quote)).boxes
    span = (quote.index("is"), quote.index("30"))
    first, last = draw_page(pdf, "a.pdf", 1, MarkedQuote(quote, [span])).boxes
    assert (first[0], first[1]) == (whole[0], whole[1])
    assert first[2] + last[2] < 0.75 * whole[2]
    assert first[0] + first[2] < last[0]
    # Of a quote that ends on the next page only its beginning is looked for.
    assert draw_page(pdf, "a.pdf", 1, MarkedQuote(quote[:12], [span])).boxes[0][0] == whole[0]


@pytest.mark.parametrize("quote", ["Second page", "no such words", "…", ""])
def test_what_is_not_on_the_page_has_no_box(pdf: Path, quote: str) -> None:
    assert draw_page(pdf, "a.pdf", 1, MarkedQuote(quote)).boxes == ()


@pytest.mark.parametrize("number", [0, 3, -1, 10**6])
def test_a_page_that_is_not_there_is_refused(pdf: Path, number: int) -> None:
    with pytest.raises(DocumentError, match="has no page"):
        draw_page(pdf, "a.pdf", number, MarkedQuote(""))


def test_what_is_no_pdf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.pdf"
    path.write_bytes(b"not a pdf")
    with pytest.raises(DocumentError, match="Page 1 of “b.pdf” cannot be drawn"):
        draw_page(path, "b.pdf", 1, MarkedQuote(""))


def test_words_that_stand_several_times_are_marked_where_they_were_quoted(tmp_path: Path) -> None:
    path = tmp_path / "c.pdf"
    lines = [f"{part} is serviced every 30 days." for part in ("Pump", "Valve", "Filter", "Seal")]
    path.write_bytes(hostile_files.text_pdf([lines]))
    quote = "is serviced every 30 days."
    tops = []
    for number, line in enumerate(lines):
        text = "\n".join(lines)
        at = text.index(line) + line.index(quote)
        around = text[:at], text[at + len(quote) :]
        ((_, top, _, _),) = draw_page(path, "c.pdf", 1, MarkedQuote(quote, around=around)).boxes
        tops.append(top)
        assert number == 0 or top > tops[-2]


def test_equal_rows_are_told_apart_by_how_far_down_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "d.pdf"
    path.write_bytes(hostile_files.text_pdf([["No. 1 yes"] * 9]))
    text = "\n".join(["No. 1 yes"] * 9)
    tops = [
        draw_page(
            path, "d.pdf", 1, MarkedQuote("yes", around=(text[: 10 * n + 6], text[10 * n + 9 :]))
        ).boxes
        for n in range(9)
    ]
    assert len(tops) == len(set(tops)) == 9


@pytest.mark.parametrize(
    ("page", "n_boxes"), [(1, 1), (2, 1)], ids=["where it begins", "where it ends"]
)
def test_a_quote_over_pages_is_marked_on_both(tmp_path: Path, page: int, n_boxes: int) -> None:
    path = tmp_path / "e.pdf"
    path.write_bytes(
        hostile_files.text_pdf([["The seal of the valve is re-"], ["placed when it drips."]])
    )
    quote = "The seal of the valve is replaced\fwhen it drips."
    assert len(draw_page(path, "e.pdf", page, MarkedQuote(quote)).boxes) == n_boxes
