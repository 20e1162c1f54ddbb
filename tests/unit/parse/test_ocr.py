"""OCR: scans of any lie as text with boxes, read by the real engine."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from PIL import Image

from rag.core.documents import MarkedQuote, ParsedDocument
from rag.core.ocr.scans import PageWords, ScannedWord, part_of_word
from rag.stages.draw_page import draw_page
from rag.stages.parse import parse_document
from rag.stages.parse.ocr.pictures import pictures_of
from rag.stages.parse.ocr.recognize import recognize_page, tiles
from tests import scans

rapidocr = pytest.importorskip("rapidocr")
pytestmark = pytest.mark.slow

SENTENCES = [
    "The pump is serviced every 30 days by the workshop.",
    "The filter costs 45 yuan and is changed once a year.",
    "Water must not stand in the basin for longer than a week.",
    "The valve opens at a pressure of six bar.",
    "All work is written down in the book of the plant.",
]


@pytest.fixture(scope="module")
def engine() -> object:
    from rag.providers.rapidocr.engine import RapidOcrEngine

    return RapidOcrEngine()


def read(path: Path, engine: object) -> tuple[ParsedDocument, dict[int, PageWords]]:
    source = pictures_of(path, path.name, 100)
    pages = {n: recognize_page(source.load(n), engine) for n in source.numbers}  # type: ignore[arg-type]
    return parse_document(path, path.name, recognized=pages), pages


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("turn", "degrees"), [(0, 0.0), (0, 1.5), (90, 0), (180, -1.0), (270, 0.5)]
)
def test_a_scan_is_read_whichever_way_it_lies(
    turn: int, degrees: float, engine: object, tmp_path: Path
) -> None:
    page = scans.askew(scans.paper(scans.lines(SENTENCES)), degrees).rotate(turn, expand=True)
    path = written(tmp_path, "a.pdf", scans.scan_pdf([page]))
    document, pages = read(path, engine)
    assert " ".join(document.text.split()) == " ".join(SENTENCES)
    assert document.pages[0].confidence and document.pages[0].confidence > 0.95
    drawn = draw_page(path, "a.pdf", 1, MarkedQuote("filter costs 45 yuan"), pages[1])
    assert _ink_around(page, drawn.boxes) < 0.02 < _ink_within(page, drawn.boxes)


def _ink_within(page: Image.Image, boxes: tuple[tuple[float, ...], ...]) -> float:
    """Return the least share of dark pixels in one of the boxes."""
    assert boxes
    return min(_ink(page.crop(_pixels(page, box))) for box in boxes)


def _ink_around(page: Image.Image, boxes: tuple[tuple[float, ...], ...]) -> float:
    """Return the share of dark pixels in rims of three pixels beside the lines that are marked."""
    rims = []
    for box in boxes:
        left, top, right, bottom = _pixels(page, box)
        if right - left > bottom - top:
            rims += [(left, top - 4, right, top - 1), (left, bottom + 1, right, bottom + 4)]
        else:
            rims += [(left - 4, top, left - 1, bottom), (right + 1, top, right + 4, bottom)]
    return sum(_ink(page.crop(rim)) for rim in rims) / len(rims)


def _pixels(page: Image.Image, box: tuple[float, ...]) -> tuple[int, int, int, int]:
    left, top, width, height = box
    x, y = page.size
    return int(left * x), int(top * y), int((left + width) * x), int((top + height) * y)


def _ink(part: Image.Image) -> float:
    pixels = part.convert("L").tobytes()
    return sum(one < 128 for one in pixels) / max(1, len(pixels))


def test_columns_are_read_one_after_the_other_and_running_heads_left_out(
    engine: object, tmp_path: Path
) -> None:
    left = [
        "This is the left column which",
        "goes on for some lines of text",
        "until it comes to its end, and",
    ]
    right = [
        "then begins the right column,",
        "where the same thing is told of",
        "a second part of the document",
    ]
    pages = []
    for number in range(3):
        placed = [(200, 90, "Handbook of the plant"), (800, 2230, f"Page {number + 1}")]
        for part in range(4):
            placed += scans.lines(left, left=150, top=250 + 300 * part, step=75)
            placed += scans.lines(right, left=880, top=250 + 300 * part, step=75)
        pages.append(scans.paper(placed))
    document, _ = read(written(tmp_path, "a.pdf", scans.scan_pdf(pages)), engine)
    first = document.text.split("\f")[0]
    assert first.rfind("This is the left column") < first.find("then begins the right column")
    assert "Handbook" not in document.text and "Page" not in document.text
    assert document.pages[1].margin.split("\n") == ["Handbook of the plant", "Page 2"]


def test_cells_of_a_table_are_apart(engine: object, tmp_path: Path) -> None:
    rows = [
        ("Part", "Number", "Price"),
        ("Bracket", "1042", "54.00"),
        ("Hinge", "2077", "8.50"),
        ("Seal", "31", "0.75"),
        ("Bolt", "4005", "1.20"),
    ]
    placed = [
        (left, 400 + 70 * at, cell)
        for at, row in enumerate(rows)
        for left, cell in zip((200, 700, 1200), row, strict=True)
    ]
    document, _ = read(
        written(tmp_path, "a.png", scans.as_bytes(scans.paper(placed), "PNG")), engine
    )
    assert document.kind == "png"
    assert "| Hinge | 2077 | 8.50 |" in document.text


def test_a_page_with_text_stays_as_it_is_beside_a_scanned_one(
    engine: object, tmp_path: Path
) -> None:
    import pypdfium2 as pdfium

    from tests.hostile_files import text_pdf

    path = written(
        tmp_path, "text.pdf", text_pdf([["Text of its own: O0 l1 I, which is long enough."]])
    )
    scan = written(tmp_path, "scan.pdf", scans.scan_pdf([scans.paper(scans.lines(SENTENCES))]))
    mixed = pdfium.PdfDocument(path)
    mixed.import_pages(pdfium.PdfDocument(scan))
    mixed.save(tmp_path / "mixed.pdf")
    document, pages = read(tmp_path / "mixed.pdf", engine)
    assert list(pages) == [2]
    assert [page.confidence is None for page in document.pages] == [True, False]
    assert document.text.startswith("Text of its own: O0 l1 I") and SENTENCES[3] in document.text


def test_a_scan_in_strips_is_a_scan(engine: object, tmp_path: Path) -> None:
    import pypdfium2 as pdfium

    page = scans.paper(scans.lines(SENTENCES))
    document = pdfium.PdfDocument.new()
    sheet = document.new_page(595, 842)
    for at in range(0, 2339, 39):
        strip = page.crop((0, at, 1654, min(2339, at + 39)))
        image = pdfium.PdfImage.new(document)
        image.set_bitmap(pdfium.PdfBitmap.from_pil(strip))
        high = strip.height * 842 / 2339
        matrix = pdfium.PdfMatrix().scale(595, high).translate(0, 842 - at * 842 / 2339 - high)
        image.set_matrix(matrix)
        sheet.insert_obj(image)
    sheet.gen_content()
    document.save(tmp_path / "strips.pdf")
    found, _ = read(tmp_path / "strips.pdf", engine)
    assert " ".join(found.text.split()) == " ".join(SENTENCES)
    with pytest.raises(Exception, match="its pages are images"):
        parse_document(tmp_path / "strips.pdf", "strips.pdf")


def test_a_tall_picture_is_read_in_tiles(engine: object, tmp_path: Path) -> None:
    texts = [f"Line {number} of the long conversation." for number in range(1, 101)]
    tall = Image.new("RGB", (800, 6200), "white")
    from PIL import ImageDraw

    pen = ImageDraw.Draw(tall)
    for at, text in enumerate(texts):
        pen.text((60, 40 + 61 * at), text, font=scans.font(30), fill="black")
    document, _ = read(written(tmp_path, "a.png", scans.as_bytes(tall, "PNG")), engine)
    found = [line for line in document.text.splitlines() if line]
    assert " ".join(" ".join(found).split()) == " ".join(texts)


@pytest.mark.skipif(not scans.CHINESE.exists(), reason="There is no Chinese font")
def test_chinese_is_read_and_marked(engine: object, tmp_path: Path) -> None:
    texts = [
        "第一条 本规定适用于公司全体员工。",
        "第二条 年假可以结转到下一年度使用，最多五天。",
        "第三条 加班应当事先得到部门经理的批准。",
    ]
    page = scans.paper(scans.lines(texts, step=80), px=36, is_chinese=True)
    path = written(tmp_path, "a.jpg", scans.as_bytes(page, "JPEG", quality=80))
    document, pages = read(path, engine)
    assert "".join(document.text.split()) == "".join("".join(texts).split())
    (box,) = draw_page(path, "a.jpg", 1, MarkedQuote("结转到下一年度"), pages[1]).boxes
    # Seven of 36 pixels, behind seven and a blank.
    assert box[0] * 1654 == pytest.approx(200 + 36 * 7.25, abs=14) and box[
        2
    ] * 1654 == pytest.approx(252, abs=18)


def test_tiles_cover_a_picture_and_overlap() -> None:
    for width, height in ((100, 100), (2400, 2400), (2401, 30), (9000, 5000)):
        found = list(tiles(width, height))
        assert max(right for _, _, right, _ in found) == width
        assert max(bottom for *_, bottom in found) == height
        assert all(
            right - left <= 2401 and bottom - top <= 2401 for left, top, right, bottom in found
        )


def test_words_travel_as_json_and_parts_of_them_have_boxes() -> None:
    words = (
        ScannedWord("年假ab", 10, 20, 72, 40, 0.98, 0),
        ScannedWord("up", 5, 100, 25, 140, 0.5, 1),
    )
    page = PageWords(3, 595, 842, math.radians(1), words)
    assert PageWords.from_json(page.to_json()) == page
    assert page.confidence == pytest.approx((4 * 0.98 + 2 * 0.5) / 6)
    assert part_of_word(words[0], 0, 1) == pytest.approx((10, 20, 30, 40))
    assert part_of_word(words[1], 0, 1) == (5, 120, 25, 140)
