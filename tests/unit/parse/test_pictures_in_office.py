"""Pictures within Word and PowerPoint files: their recognized words where they are shown."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from rag.core.documents import ParsedDocument
from rag.core.errors import DocumentError
from rag.core.ocr.scans import PageWords, ScannedWord
from rag.stages.detect.sniff import may_hold_pictures
from rag.stages.parse import parse_document
from rag.stages.parse.ocr.pictures import pictures_of
from tests import hostile_files
from tests.hostile_files import OFFICE, RELATIONS, paragraph

DRAWN = (
    '<w:p><w:r><w:t>Look: </w:t></w:r><w:r><w:drawing><a:blip xmlns:a="urn:a" xmlns:r="{office}" '
    'r:embed="{which}"/></w:drawing></w:r></w:p>'
)
SIZES = {"image1.png": (400, 200), "image2.png": (30, 30), "image3.png": (30_000, 30_000)}


def png(width: int, height: int) -> bytes:
    out = BytesIO()
    Image.new("1", (width, height)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def report() -> bytes:
    drawn = "".join(DRAWN.format(office=OFFICE, which=f"rId{n}") for n in (91, 92, 91, 93))
    data = hostile_files.docx(paragraph("Before.") + drawn + paragraph("Behind."))
    links = "".join(
        f'<Relationship Id="rId9{n}" Type="{OFFICE}/image" Target="media/image{n}.png"/>'
        for n in (1, 2, 3)
    )
    media = {f"word/media/{name}": png(*size) for name, size in SIZES.items()}
    rels = {"word/_rels/document.xml.rels": RELATIONS.format(links=links)}
    return hostile_files.with_members(data, {**rels, **media})


def read(folder: Path, data: bytes, **told: object) -> ParsedDocument:
    path = folder / "upload"
    path.write_bytes(data)
    return parse_document(path, "a.docx", **told)  # type: ignore[arg-type]


def words(number: int, text: str, confidence: float = 1.0) -> PageWords:
    placed = [
        ScannedWord(word, 10 + 40 * at, 10, 45 + 40 * at, 20, confidence)
        for at, word in enumerate(text.split())
    ]
    return PageWords(number, 144, 72, words=tuple(placed))


def test_words_of_a_picture_stand_once_behind_its_paragraph(tmp_path: Path, report: bytes) -> None:
    recognized = {1: words(1, "Valve 12 bar", 0.5), 3: PageWords(3, 0, 0, has_failed=True)}
    document = read(tmp_path, report, recognized=recognized)
    assert document.text.split() == [
        "Before.",
        "Look:",
        "Valve",
        "12",
        "bar",
        "Look:",
        "Look:",
        "Look:",
        "Behind.",
    ]
    assert [str(one) for one in document.warnings] == [
        "Images in it whose text could not be recognized: 1.",
        "Images in it that are hard to read: 1. Compare their words.",
    ]


def test_without_recognition_pictures_are_told_once(tmp_path: Path, report: bytes) -> None:
    document = read(tmp_path, report)
    assert "▣" not in document.text and "⟐" not in document.text
    (notice,) = document.warnings
    assert str(notice).startswith("Images in it are not read: 2. Turn on text recognition (OCR)")


def test_pictures_worth_reading_are_listed_and_huge_ones_fail_alone(
    tmp_path: Path, report: bytes
) -> None:
    path = tmp_path / "upload"
    path.write_bytes(report)
    assert may_hold_pictures(path)
    source = pictures_of(path, "a.docx", 100)
    assert (list(source.numbers), source.is_part) == ([1, 3], True)
    assert list(pictures_of(path, "a.docx", 1).numbers) == [1]
    assert source.load(1).pixels.shape == (200, 400, 3)
    with pytest.raises(DocumentError, match="30000 × 30000 pixels"):
        source.load(3)
    path.write_bytes(hostile_files.docx(paragraph("no pictures")))
    assert not may_hold_pictures(path)


def test_pictures_of_a_slide_are_read_on_it(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_bytes(zipped_slides(Path(__file__).parents[3]))
    document = parse_document(path, "a.pptx", recognized={1: words(1, "Valve 12 bar")})
    assert "Valve 12 bar" in document.text.split("\f")[0]
    assert "../media" not in document.text


def zipped_slides(root: Path) -> bytes:
    """Return the demo's slides with a picture on the first."""
    data = (root / "rag/demo/documents/dosing-training.pptx").read_bytes()
    with zipfile.ZipFile(BytesIO(data)) as bundle:
        name = "ppt/slides/_rels/slide1.xml.rels"
        links = bundle.read(name).decode()
    link = f'<Relationship Id="rId99" Type="{OFFICE}/image" Target="../media/image99.png"/>'
    links = links.replace("</Relationships>", f"{link}</Relationships>")
    return hostile_files.with_members(data, {name: links, "ppt/media/image99.png": png(400, 200)})
