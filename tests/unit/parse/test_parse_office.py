"""Office blocks to text: lists, tables, pages, slides, and .doc with its second way."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from rag.core.documents import ParsedDocument
from rag.core.errors import DocumentError
from rag.providers.sandbox.parser import SandboxedParser
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.office import doc, libreoffice, office
from rag.stages.parse.office.office import OfficeContent, XbergNode, add_nodes
from rag.stages.parse.word.docx_preprocess import PAGE_MARK
from tests import hostile_files

P = "http://schemas.openxmlformats.org/presentationml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
MAIN = "application/vnd.openxmlformats-officedocument."


def text_of(nodes: list[XbergNode], *, number_lists: bool = True) -> str:
    canonical = CanonicalText()
    add_nodes(canonical, nodes, number_lists=number_lists)
    return canonical.finish("docx", "test").text


def parsed(folder: Path, data: bytes, name: str) -> ParsedDocument:
    path = folder / "upload"
    path.write_bytes(data)
    return SandboxedParser().parse(path, name)


def item(text: str, depth: int = 0, is_ordered: bool = False) -> XbergNode:
    return XbergNode("list", text, depth=depth, is_ordered=is_ordered)


def test_items_in_a_row_are_one_list() -> None:
    nodes = [
        XbergNode("paragraph", "before"),
        item("a"),
        item("b", 1),
        XbergNode("paragraph", "after"),
        item("c"),
    ]
    assert text_of(nodes) == "before\n\n- a\n  - b\n\nafter\n\n- c"


def test_ordered_items_count_by_depth_and_start_again() -> None:
    nodes = [
        item("a", 0, True),
        item("b", 1, True),
        item("c", 1, True),
        item("d", 0, True),
        item("e", 1, True),
    ]
    assert text_of(nodes) == "1. a\n  1. b\n  2. c\n2. d\n  1. e"
    assert text_of(nodes, number_lists=False) == "a\n  b\n  c\nd\n  e"


def test_a_table_is_one_line_a_row() -> None:
    table = XbergNode("table", rows=(("a\nb", " c "), ("", "d|e")))
    assert text_of([table]) == "| a b | c |\n|  | d\\|e |"


def test_headers_and_footers_come_once_at_the_end() -> None:
    nodes = [
        XbergNode("paragraph", "Top\tsecret", layer="header"),
        XbergNode("paragraph", "body"),
        XbergNode("paragraph", "Top secret", layer="header"),
        XbergNode("paragraph", "page", layer="footer"),
        XbergNode("paragraph", "note", layer="footnote"),
    ]
    assert text_of(nodes) == "body\n\nnote\n\nTop secret\n\npage"


def pages(*nodes: XbergNode) -> list[str]:
    return [text_of(list(page)) for page in office._pages_at_marks(nodes)]


def test_pages_break_within_paragraphs_before_rows_and_before_headings() -> None:
    mark = PAGE_MARK
    assert pages(XbergNode("paragraph", f"a {mark}b{mark}c"), XbergNode("paragraph", "d")) == [
        "a ",
        "b",
        "c\n\nd",
    ]
    assert pages(XbergNode("heading", f"ti{mark}tle", 1)) == ["", "title"]
    table = XbergNode("table", rows=(("1", "2"), ("3", f"{mark}4"), ("5", "6")))
    assert pages(table) == ["| 1 | 2 |", "| 3 | 4 |\n| 5 | 6 |"]
    assert [node.goes_on for page in office._pages_at_marks([table]) for node in page] == [0, 1]
    first = XbergNode("table", rows=((f"{mark}1",), (f"{mark}{mark}2",)))
    assert pages(XbergNode("paragraph", "x"), first) == ["x", "| 1 |", "", "| 2 |"]
    assert pages(item(f"a{mark}"), item("b")) == ["- a", "- b"]


def test_a_style_makes_a_heading_and_a_mark_an_item() -> None:
    shown = office._as_shown
    levels = {"heading 2": 2}
    assert shown(XbergNode("paragraph", "1.1 Title", style="heading 2"), levels) == XbergNode(
        "heading", "1.1 Title", 2, style="heading 2"
    )
    long = XbergNode("paragraph", "x" * 500, style="heading 2")
    assert shown(long, levels) == long
    assert shown(XbergNode("paragraph", "␌2⟐(a) text[^3] more"), levels) == XbergNode(
        "list", "(a) text[^3] more", depth=2, is_ordered=True
    )
    header = XbergNode("paragraph", "␌0⟐1. x", layer="header")
    assert shown(header, levels) == replace(header, text="1. x")
    assert shown(XbergNode("table", rows=(("␌0⟐1. x",),)), levels).rows == (("1. x",),)


def slides(*texts: tuple[str, str]) -> bytes:
    def shape(text: str, kind: str) -> str:
        holder = f'<p:nvPr><p:ph type="{kind}"/></p:nvPr>'
        paragraphs = "".join(
            f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in text.split("\n")
        )
        return (
            f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="x"/><p:cNvSpPr/>{holder}</p:nvSpPr><p:spPr/>'
            f"<p:txBody><a:bodyPr/>{paragraphs}</p:txBody></p:sp>"
        )

    def slide(title: str, body: str) -> str:
        shapes = (shape(title, "title") if title else "") + (shape(body, "body") if body else "")
        return f'<p:sld xmlns:p="{P}" xmlns:a="{A}"><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>'

    numbers = range(1, len(texts) + 1)
    listed = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n}"/>' for n in numbers)
    links = "".join(
        f'<Relationship Id="rId{n}" Type="{hostile_files.OFFICE}/slide" Target="slides/slide{n}.xml"/>'
        for n in numbers
    )
    show = (
        f'<p:presentation xmlns:p="{P}" xmlns:r="{hostile_files.OFFICE}">'
        f"<p:sldIdLst>{listed}</p:sldIdLst></p:presentation>"
    )
    parts = {f"ppt/slides/slide{n}.xml": slide(*texts[n - 1]) for n in numbers}
    parts |= {
        "ppt/presentation.xml": show,
        "ppt/_rels/presentation.xml.rels": hostile_files.RELATIONS.format(links=links),
    }
    return hostile_files.package(
        "ppt/presentation.xml", f"{MAIN}presentationml.presentation.main+xml", parts
    )


def test_slides_are_pages_under_their_titles(tmp_path: Path) -> None:
    data = slides(("水泵", "first\nsecond"), ("", "no title here"), ("Last", ""))
    document = parsed(tmp_path, data, "a.pptx")
    assert [page.label for page in document.pages] == ["水泵", "no title here", "Last"]
    shown = [document.text[page.start : page.end] for page in document.pages]
    assert shown[0].split("\n\n")[0] == "水泵"
    assert "first" in shown[0] and "second" in shown[0]
    assert shown[1] == "no title here"
    assert shown[2] == "Last"


@pytest.fixture
def old_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Give .doc files these nodes, or this error, and this program as LibreOffice."""
    path = tmp_path / "upload.doc"
    path.write_bytes(b"old")

    def call(found: list[XbergNode] | DocumentError, program: str = "") -> ParsedDocument:
        def read(data: bytes, kind: str, name: str) -> OfficeContent:
            if isinstance(found, DocumentError):
                raise found
            return OfficeContent(tuple(found), "T", ())

        monkeypatch.setattr(doc, "read_office", read)
        monkeypatch.setenv("PATH", str(tmp_path))
        if program:
            office_path = tmp_path / "soffice"
            office_path.write_text("#!/bin/sh\n" + textwrap.dedent(program))
            office_path.chmod(0o755)
        return doc.parse_doc(path, "a.doc")

    return call


def test_a_doc_has_no_guessed_headings_but_numbered_ones_and_tables(old_word) -> None:
    document = old_word(
        [
            XbergNode("heading", "bold words", 2),
            XbergNode("paragraph", "第一章 总则"),
            XbergNode("paragraph", "11\t12\t\t21\t22"),
            item("point"),
            item("one", is_ordered=True),
            XbergNode("paragraph", "head", layer="header"),
        ]
    )
    shown = [(b.kind, b.level, document.text[b.start : b.end]) for b in document.blocks]
    assert shown == [
        ("paragraph", 0, "bold words"),
        ("heading", 1, "第一章 总则"),
        ("table", 0, "| 11 | 12 |\n| 21 | 22 |"),
        ("list", 0, "- point\none"),
        ("paragraph", 0, "head"),
    ]
    assert (document.kind, document.title) == ("doc", "T")


@pytest.mark.parametrize(
    "found",
    [
        DocumentError("“{name}” is damaged.", name="a.doc"),
        [XbergNode("paragraph", "£± Ä¿Â¼ µÚÒ»ÕÂ ×ÜÔò Ôò¸Ç¹æ¶¨Á¦ Ê©ÐÐ")],
        [XbergNode("paragraph", " ")],
        [],
    ],
    ids=["error", "garbled", "blank", "nothing"],
)
def test_without_libreoffice_an_unreadable_doc_says_how_to_help(old_word, found) -> None:
    with pytest.raises(DocumentError) as caught:
        old_word(found)
    assert str(caught.value) == (
        "“a.doc” is a .doc file that cannot be read here. "
        "Save it as .docx, or install LibreOffice on the server."
    )


def test_libreoffice_fails_with_success_and_that_is_damage(old_word) -> None:
    with pytest.raises(DocumentError, match=r"“a\.doc” is damaged\. Open it, save it as \.docx"):
        old_word([], "exit 0")


def test_what_libreoffice_cannot_read_is_read_without_it_and_told(old_word) -> None:
    document = old_word([XbergNode("paragraph", "words")], "exit 1")
    assert (document.text, document.parser) == ("words", "word97/1")
    assert "read without LibreOffice" in str(document.warnings[0])


def test_libreoffice_that_hangs_is_ended(old_word, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libreoffice, "TIMEOUT_S", 0.3)
    with pytest.raises(DocumentError, match="Reading “a.doc” took longer than 0.3 seconds"):
        old_word([], "exec /bin/sleep 60")


def test_what_libreoffice_makes_is_read_as_a_word_file(
    old_word, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made.docx"
    made.write_bytes(hostile_files.docx(hostile_files.paragraph("converted words")))
    seen = []

    def parse(path: Path, name: str, kind: str) -> ParsedDocument:
        seen.append((path.read_bytes() == made.read_bytes(), name, kind))
        return ParsedDocument("docx", "converted words", "xberg/4")

    monkeypatch.setattr(doc, "parse_office", parse)
    # The last argument but one is the folder to write to.
    document = old_word(
        [], f'while [ "$2" ]; do out="$1"; shift; done; /bin/cp {made} "$out/source.docx"'
    )
    assert seen == [(True, "a.doc", "docx")]
    assert (document.kind, document.parser) == ("doc", "libreoffice/4")
