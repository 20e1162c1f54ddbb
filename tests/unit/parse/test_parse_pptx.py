"""Slides: in the order in which they are shown, with notes, and with words for pictures."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rag.core.documents import ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.parse import parse_document
from rag.stages.parse.office.pptx_preprocess import preprocess_pptx
from rag.stages.parse.relationships import Relationship, main_part, read_relationships
from tests import hostile_files

P = "http://schemas.openxmlformats.org/presentationml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
SHOW = "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"
NAMES = f'xmlns:p="{P}" xmlns:a="{A}"'
PICTURE = '<p:pic><p:nvPicPr><p:cNvPr id="5" name="x" descr="{}"/></p:nvPicPr></p:pic>'


def shape(text: str, kind: str = "") -> str:
    holder = f'<p:ph type="{kind}"/>' if kind else ""
    lines = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in text.split("\n"))
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="x"/><p:cNvSpPr/><p:nvPr>{holder}</p:nvPr></p:nvSpPr>'
        f"<p:spPr/><p:txBody><a:bodyPr/>{lines}</p:txBody></p:sp>"
    )


def table(*rows: tuple[str, ...]) -> str:
    """Return a table; ``/`` in a cell is a line break."""
    body = ""
    for row in rows:
        runs = [
            "<a:br><a:rPr/></a:br>".join(f"<a:r><a:t>{t}</a:t></a:r>" for t in cell.split("/"))
            for cell in row
        ]
        cells = "".join(f"<a:tc><a:txBody><a:p>{run}</a:p></a:txBody></a:tc>" for run in runs)
        body += f"<a:tr>{cells}</a:tr>"
    return (
        "<p:graphicFrame><a:graphic><a:graphicData"
        f' uri="{A.replace("main", "table")}"><a:tbl>{body}</a:tbl></a:graphicData></a:graphic>'
        "</p:graphicFrame>"
    )


def links(*targets: tuple[str, str]) -> str:
    return hostile_files.RELATIONS.format(
        links="".join(
            f'<Relationship Id="rId{n}" Type="{hostile_files.OFFICE}/{kind}" Target="{target}"/>'
            for n, (kind, target) in enumerate(targets, start=1)
        )
    )


def show(slides: list[str], order: list[int], **more: str) -> bytes:
    """Return a show of the slides 1, 2 ..., shown in this order; ``more`` are notes by slide."""
    listed = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n}"/>' for n in order)
    parts = {
        "ppt/presentation.xml": f'<p:presentation {NAMES} xmlns:r="{hostile_files.OFFICE}"><p:sldIdLst>'
        f"{listed}</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": links(
            *[("slide", f"slides/slide{n}.xml") for n in range(1, len(slides) + 1)]
        ),
    }
    for n, shapes in enumerate(slides, start=1):
        tree = f"<p:cSld><p:spTree>{shapes}</p:spTree></p:cSld>"
        parts[f"ppt/slides/slide{n}.xml"] = f"<p:sld {NAMES}>{tree}</p:sld>"
    for key, notes in more.items():
        number = key.removeprefix("notes")
        page = f"<p:cSld><p:spTree>{notes}</p:spTree></p:cSld>"
        parts[f"ppt/notesSlides/n{number}.xml"] = f"<p:notes {NAMES}>{page}</p:notes>"
        target = ("notesSlide", f"../notesSlides/n{number}.xml")
        parts[f"ppt/slides/_rels/slide{number}.xml.rels"] = links(target)
    return hostile_files.package("ppt/presentation.xml", SHOW, parts)


@pytest.fixture
def parse(tmp_path: Path):
    def call(data: bytes) -> ParsedDocument:
        path = tmp_path / "upload"
        path.write_bytes(data)
        return parse_document(path, "a.pptx")

    return call


def test_slides_come_in_the_order_in_which_they_are_shown(parse) -> None:
    slides = [shape(f"Slide {n}", "title") for n in range(1, 13)]
    order = [11, 2, 1, *range(12, 2, -1)]
    document = parse(show(slides, order))
    shown = list(dict.fromkeys(order))
    assert document.text.split("\f") == [f"Slide {n}" for n in shown]
    assert [(page.number, page.label) for page in document.pages] == [
        (at, f"Slide {n}") for at, n in enumerate(shown, start=1)
    ]


def test_a_slide_that_the_show_does_not_list_is_not_shown(parse) -> None:
    assert parse(show([shape("one"), shape("old"), shape("two")], [3, 1])).text == "two\fone"


def test_notes_follow_their_slide_without_its_number(parse) -> None:
    notes = shape("7", "sldNum") + shape("Say hello.\nThen wait.", "body") + shape("Free note.")
    document = parse(show([shape("One", "title"), shape("Two", "title")], [2, 1], notes2=notes))
    assert document.text == "Two\n\nSay hello.\nThen wait.\nFree note.\fOne"
    assert [document.text[page.start : page.end] for page in document.pages][1] == "One"


def test_what_stands_for_a_picture_is_text_and_an_empty_slide_keeps_its_page(parse) -> None:
    slides = [PICTURE.format("A pump &amp; a valve"), "", shape("End", "title"), ""]
    document = parse(show(slides, [1, 2, 3, 4]))
    assert document.text == "A pump & a valve\f\fEnd\f"
    assert len(document.pages) == 4


def test_a_line_break_within_a_cell_begins_no_row(parse) -> None:
    document = parse(show([table(("Part", "Use"), ("HX/400", "to pump"))], [1]))
    assert document.text == "| Part | Use |\n| HX 400 | to pump |"


def test_pictures_and_media_stay_out_of_what_is_parsed(tmp_path: Path) -> None:
    out = BytesIO(show([shape("one")], [1]))
    with zipfile.ZipFile(out, "a") as bundle:
        bundle.writestr("ppt/media/image1.png", b"x" * 1000)
    path = tmp_path / "a.pptx"
    path.write_bytes(out.getvalue())
    with zipfile.ZipFile(BytesIO(preprocess_pptx(path).data)) as bundle:
        assert not any("media" in name for name in bundle.namelist())


@pytest.mark.parametrize("part", ["ppt/presentation.xml", "ppt/_rels/presentation.xml.rels"])
def test_a_malformed_show_is_damaged(parse, part: str) -> None:
    parts = {"ppt/presentation.xml": "<p/>", "ppt/slides/slide1.xml": "<p/>"}
    for bad in ("<not closed", "<?xml version='1.0' encoding='no-such'?><p/>", b"\xff\xfe\0<"):
        with pytest.raises(DocumentError, match=r"“a\.pptx” is damaged"):
            parse(hostile_files.package("ppt/presentation.xml", SHOW, {**parts, part: bad}))


def test_links_are_members_and_the_main_part_has_any_name() -> None:
    away = (
        '<Relationship Id="x" Type="t/hyperlink" Target="http://a.example" TargetMode="External"/>'
    )
    parts = {
        "word/document2.xml": "<a/>",
        "word/_rels/document2.xml.rels": links(
            ("styles", "styles.xml"), ("image", "/media/../media/a.png"), ("up", "../b.xml")
        ).replace("</Rel", f"{away}</Rel"),
    }
    data = hostile_files.package("word/document2.xml", "x", parts)
    with zipfile.ZipFile(BytesIO(data)) as bundle:
        assert main_part(bundle, "usual.xml") == "word/document2.xml"
        assert read_relationships(bundle, "word/document2.xml") == {
            "rId1": Relationship("styles", "word/styles.xml"),
            "rId2": Relationship("image", "media/a.png"),
            "rId3": Relationship("up", "b.xml"),
        }
        assert read_relationships(bundle, "word/none.xml") == {}
    with zipfile.ZipFile(BytesIO(hostile_files.zipped({"a": "b"}))) as bundle:
        assert main_part(bundle, "usual.xml") == "usual.xml"
    with (
        zipfile.ZipFile(BytesIO(hostile_files.zipped({"_rels/.rels": "<no"}))) as bundle,
        pytest.raises(ElementTree.ParseError),
    ):
        main_part(bundle, "usual.xml")
