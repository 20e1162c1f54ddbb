"""Word files say what Word shows: numbers before headings, pages where they broke, no contents."""

from __future__ import annotations

import re
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from rag.stages.parse import parse_document
from rag.stages.parse.word import docx_preprocess
from rag.stages.parse.word.docx_numbering import format_number, read_numbering, read_styles
from rag.stages.parse.word.docx_preprocess import PAGE_MARK, PreprocessedDocx, preprocess_docx
from tests import hostile_files

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
STRICT = 'xmlns:w="http://purl.oclc.org/ooxml/wordprocessingml/main"'
M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
FORMULA = (
    f"<m:oMath {M}><m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup>"
    "</m:sSup></m:oMath>"
)
BREAK = "<w:r><w:lastRenderedPageBreak/><w:t>next</w:t></w:r>"


def level(depth: int, text: str, form: str = "decimal", more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>'
        f'<w:lvlText w:val="{text}"/>{more}</w:lvl>'
    )


def numbering(*lists: str, more: str = "") -> str:
    """Return numbering.xml of lists 1, 2 ...; ``more`` are further w:num elements."""
    abstract = "".join(
        f'<w:abstractNum w:abstractNumId="{n}">{levels}</w:abstractNum>'
        for n, levels in enumerate(lists)
    )
    nums = "".join(
        f'<w:num w:numId="{n + 1}"><w:abstractNumId w:val="{n}"/></w:num>'
        for n in range(len(lists))
    )
    return f"<w:numbering {W}>{abstract}{nums}{more}</w:numbering>"


def style(style_id: str, name: str, properties: str = "", parent: str = "") -> str:
    based = f'<w:basedOn w:val="{parent}"/>' if parent else ""
    return (
        f'<w:style w:type="paragraph" w:styleId="{style_id}"><w:name w:val="{name}"/>{based}'
        f"<w:pPr>{properties}</w:pPr></w:style>"
    )


def styles(*parts: str) -> str:
    return f"<w:styles {W}>{''.join(parts)}</w:styles>"


def number(number_id: int, depth: int = 0) -> str:
    return f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number_id}"/></w:numPr>'


def edited(folder: Path, data: bytes) -> tuple[PreprocessedDocx, str]:
    """Return the edited file and the lines of its text."""
    path = folder / "a.docx"
    path.write_bytes(data)
    result = preprocess_docx(path)
    with zipfile.ZipFile(BytesIO(result.data)) as bundle:
        body = bundle.read("word/document.xml").decode()
    paragraphs = re.findall(r"<w:p[ >].*?</w:p>", body, re.S)
    return result, "\n".join("".join(re.findall(r"<w:t[^>]*>([^<]*)", p)) for p in paragraphs)


@pytest.mark.parametrize(
    ("form", "pairs"),
    [
        ("decimal", {1: "1", 10: "10", 0: "0", 123456: "123456"}),
        ("decimalZero", {1: "01", 12: "12"}),
        (
            "chineseCountingThousand",
            {
                1: "一",
                10: "十",
                11: "十一",
                20: "二十",
                21: "二十一",
                100: "一百",
                101: "一百零一",
                110: "一百一十",
                111: "一百一十一",
                1005: "一千零五",
                1260: "一千二百六十",
            },
        ),
        ("japaneseCounting", {3: "三", 19: "十九"}),
        ("chineseLegalSimplified", {1: "壹", 10: "壹拾", 23: "贰拾叁"}),
        ("ideographDigital", {10: "一〇", 23: "二三"}),
        ("ideographTraditional", {1: "甲", 10: "癸", 11: "11"}),
        ("ideographZodiac", {1: "子", 12: "亥"}),
        ("decimalEnclosedCircle", {1: "①", 20: "⑳", 21: "21"}),
        ("decimalFullWidth", {12: "１２"}),
        ("upperLetter", {1: "A", 26: "Z", 27: "AA", 28: "BB"}),
        ("lowerLetter", {2: "b"}),
        ("upperRoman", {4: "IV", 9: "IX", 1994: "MCMXCIV"}),
        ("lowerRoman", {3: "iii"}),
        ("never-heard-of", {7: "7"}),
    ],
)
def test_numbers_are_spelled_as_word_spells_them(form: str, pairs: dict[int, str]) -> None:
    assert {value: format_number(value, form) for value in pairs} == pairs


def test_labels_count_by_level_and_start_again_below_a_higher_one() -> None:
    lists = read_numbering(
        numbering(level(0, "%1.") + level(1, "%1.%2") + level(2, "(%3)", "lowerLetter")).encode()
    )
    asked = [0, 1, 1, 2, 2, 0, 1, 2]
    labels = [lists.next_label("1", depth) for depth in asked]
    assert labels == ["1. ", "1.1 ", "1.2 ", "(a) ", "(b) ", "2. ", "2.1 ", "(a) "]


def test_articles_count_on_across_chapters() -> None:
    never = '<w:lvlRestart w:val="0"/><w:suff w:val="nothing"/>'
    xml = numbering(
        level(0, "第%1章", "chineseCountingThousand")
        + level(1, "第%2条", "chineseCountingThousand", never)
    )
    lists = read_numbering(xml.encode())
    labels = [lists.next_label("1", depth) for depth in (0, 1, 1, 0, 1)]
    assert labels == ["第一章 ", "第一条", "第二条", "第二章 ", "第三条"]


def test_legal_levels_turn_all_numbers_to_figures() -> None:
    xml = numbering(level(0, "%1", "upperRoman") + level(1, "%1.%2", "decimal", "<w:isLgl/>"))
    lists = read_numbering(xml.encode())
    assert [lists.next_label("1", depth) for depth in (0, 0, 1)] == ["I ", "II ", "2.1 "]


def test_lists_of_one_kind_count_on_until_one_says_where_to_start() -> None:
    override = (
        '<w:num w:numId="8"><w:abstractNumId w:val="0"/></w:num>'
        '<w:num w:numId="9"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0">'
        '<w:startOverride w:val="5"/></w:lvlOverride></w:num>'
    )
    lists = read_numbering(numbering(level(0, "%1)"), more=override).encode())
    labels = [lists.next_label(which, 0) for which in ("1", "8", "9", "9", "1")]
    assert labels == ["1) ", "2) ", "5) ", "6) ", "7) "]


def test_a_level_may_be_overridden_and_a_list_linked() -> None:
    more = (
        '<w:abstractNum w:abstractNumId="7"><w:numStyleLink w:val="L"/></w:abstractNum>'
        '<w:num w:numId="7"><w:abstractNumId w:val="7"/></w:num>'
        '<w:num w:numId="9"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0">'
        f"{level(0, '§%1')}</w:lvlOverride></w:num>"
    )
    xml = numbering('<w:styleLink w:val="L"/>' + level(0, "%1."), more=more)
    lists = read_numbering(xml.encode())
    assert lists.next_label("9", 0) == "§1 "
    assert lists.next_label("7", 0) == "1. "


@pytest.mark.parametrize("form", ["bullet", "none"])
def test_bullets_and_unknown_lists_have_no_label(form: str) -> None:
    lists = read_numbering(numbering(level(0, "•", form)).encode())
    assert lists.next_label("1", 0) == ""
    assert lists.next_label("1", 5) == ""
    assert lists.next_label("77", 0) == ""


def test_headings_are_known_by_name_outline_and_parent() -> None:
    found = read_styles(
        styles(
            style("1", "heading 1", number(3)),
            style("2", "Heading 2", '<w:numPr><w:numId w:val="3"/></w:numPr>'),
            style("a", "标题 3"),
            style("b", "mine", parent="1"),
            style("c", "outlined", '<w:outlineLvl w:val="1"/>'),
            style("d", "body", '<w:outlineLvl w:val="9"/>'),
            style("e", "toc 2"),
            style("f", "目录 1"),
            style("x", "loop", parent="y"),
            style("y", "loop too", parent="x"),
        ).encode()
    )
    levels = {style_id: one.level for style_id, one in found.items() if one.level}
    assert levels == {"1": 1, "2": 2, "a": 3, "b": 1, "c": 2}
    assert (found["b"].name, found["b"].number_id, found["2"].depth) == ("mine", "3", 1)
    assert [style_id for style_id, one in found.items() if one.is_contents] == ["e", "f"]


def test_labels_go_into_the_text_before_their_paragraphs(tmp_path: Path) -> None:
    linked = level(0, "%1", more='<w:pStyle w:val="1"/>') + level(
        1, "%1.%2", more='<w:pStyle w:val="2"/>'
    )
    data = hostile_files.docx(
        hostile_files.paragraph("总则", "1")
        + hostile_files.paragraph("目的", "2")
        + "<w:p/>"
        + hostile_files.paragraph("范围", "2")
        + hostile_files.paragraph("项 &amp; 目", "", number(2))
        + hostile_files.paragraph("无号", "1", number(0))
        + hostile_files.paragraph("附则", "1"),
        numbering=numbering(linked, level(0, "&lt;%1&gt;")),
        styles=styles(
            style("1", "heading 1", number(1)),
            style("2", "heading 2", '<w:numPr><w:numId w:val="1"/></w:numPr>'),
        ),
    )
    result, text = edited(tmp_path, data)
    assert text.split("\n") == [
        "1 总则",
        "1.1 目的",
        "1.2 范围",
        "␌0⟐&lt;1&gt; 项 &amp; 目",
        "无号",
        "2 附则",
    ]
    assert result.heading_levels == {"heading 1": 1, "heading 2": 2}


def test_an_older_state_of_a_paragraph_does_not_count(tmp_path: Path) -> None:
    change = f"<w:pPrChange><w:pPr>{number(1, 1)}</w:pPr></w:pPrChange>"
    data = hostile_files.docx(
        hostile_files.paragraph("a", "", number(1) + change)
        + hostile_files.paragraph("b", "", change),
        numbering=numbering(level(0, "%1.") + level(1, "%1.%2")),
    )
    assert edited(tmp_path, data)[1] == "␌0⟐1. a\nb"


@pytest.mark.parametrize("mark", ["del", "moveFrom"])
def test_a_paragraph_that_is_gone_takes_no_number(tmp_path: Path, mark: str) -> None:
    gone = f"{number(1)}<w:rPr><w:{mark}/></w:rPr>"
    data = hostile_files.docx(
        hostile_files.paragraph("a", "", number(1))
        + f"<w:p><w:pPr>{gone}</w:pPr></w:p>"
        + hostile_files.paragraph("c", "", number(1)),
        numbering=numbering(level(0, "%1.")),
    )
    assert edited(tmp_path, data)[1] == "␌0⟐1. a\n\n␌0⟐2. c"


@pytest.mark.parametrize("space", [W, STRICT])
def test_another_prefix_or_namespace_makes_no_difference(tmp_path: Path, space: str) -> None:
    body = f"<w:document {space}><w:body>{hostile_files.paragraph('a', '', number(1))}</w:body></w:document>"
    xml = numbering(level(0, "%1.")).replace(W, space)
    for prefix in ("w:", "q1:"):
        parts = {
            "word/document.xml": body.replace("w:", prefix).replace(
                "xmlns:w=", f"xmlns:{prefix[:-1]}="
            ),
            "word/numbering.xml": xml,
        }
        path = tmp_path / "b.docx"
        path.write_bytes(hostile_files.package("word/document.xml", "x", parts))
        with zipfile.ZipFile(BytesIO(preprocess_docx(path).data)) as bundle:
            assert f"<{prefix}t xml:space=" in bundle.read("word/document.xml").decode()
            assert ">␌0⟐1. </" in bundle.read("word/document.xml").decode()


def app(n_pages: int) -> str:
    return f"<Properties><Pages>{n_pages}</Pages></Properties>"


def with_pages(body: str, n_pages: int) -> bytes:
    out = BytesIO(hostile_files.docx(body))
    with zipfile.ZipFile(out, "a") as bundle:
        bundle.writestr("docProps/app.xml", app(n_pages))
    return out.getvalue()


@pytest.mark.parametrize(
    ("n_pages", "is_reliable"), [(3, True), (2, False), (4, False), (1, False)]
)
def test_pages_count_only_where_word_agrees_with_itself(
    tmp_path: Path, n_pages: int, is_reliable: bool
) -> None:
    body = (
        hostile_files.paragraph("one")
        + f"<w:p>{BREAK}</w:p><w:p><w:r><w:t>x</w:t></w:r>{BREAK}</w:p>"
    )
    result, text = edited(tmp_path, with_pages(body, n_pages))
    assert result.has_pages is is_reliable
    mark = PAGE_MARK if is_reliable else ""
    assert text == f"one\n{mark}next\nx{mark}next"


def test_a_table_of_contents_goes_but_its_pages_stay(tmp_path: Path) -> None:
    gallery = '<w:sdtPr><w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj></w:sdtPr>'
    contents = (
        hostile_files.paragraph("目录") + hostile_files.paragraph("总则\t3") + f"<w:p>{BREAK}</w:p>"
    )
    body = (
        hostile_files.paragraph("before")
        + f"<w:sdt>{gallery}<w:sdtContent>{contents}</w:sdtContent></w:sdt>"
        + "<w:sdt><w:sdtContent>"
        + hostile_files.paragraph("kept")
        + "</w:sdtContent></w:sdt>"
        + hostile_files.paragraph("Total\t42")
    )
    result, text = edited(tmp_path, with_pages(body, 2))
    assert result.has_pages
    assert text == f"before\n{PAGE_MARK}\nkept\nTotal\t42"
    assert edited(tmp_path, with_pages(body, 9))[1] == "before\nkept\nTotal\t42"


def test_lines_in_a_contents_style_go_too(tmp_path: Path) -> None:
    data = hostile_files.docx(
        hostile_files.paragraph("第一章 总则 ... 3", "7") + hostile_files.paragraph("text"),
        styles=styles(style("7", "toc 1")),
    )
    assert edited(tmp_path, data)[1] == "text"


def test_a_very_large_body_is_left_alone_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docx_preprocess, "MAX_BODY", 10)
    data = hostile_files.docx(
        hostile_files.paragraph("a", "", number(1)), numbering=numbering(level(0, "%1."))
    )
    result, text = edited(tmp_path, data)
    assert text == "a"
    assert "too large" in str(result.warnings[0])


def test_the_main_part_gets_its_usual_name_and_pictures_stay_out(tmp_path: Path) -> None:
    parts = {
        "word/document2.xml": hostile_files.word_body(hostile_files.paragraph("a")),
        "word/_rels/document2.xml.rels": hostile_files.RELATIONS.format(links=""),
        "word/media/image1.png": b"x" * 1000,
    }
    result, text = edited(tmp_path, hostile_files.package("word/document2.xml", "x", parts))
    assert text == "a"
    with zipfile.ZipFile(BytesIO(result.data)) as bundle:
        assert set(bundle.namelist()) == {
            "[Content_Types].xml",
            "_rels/.rels",
            "word/document.xml",
            "word/_rels/document.xml.rels",
        }
        assert b"document2" not in bundle.read("_rels/.rels")


@pytest.mark.parametrize("part", ["word/document.xml", "word/styles.xml", "word/numbering.xml"])
def test_malformed_parts_are_a_value_error(tmp_path: Path, part: str) -> None:
    parts = {
        "word/document.xml": hostile_files.word_body(hostile_files.paragraph("a")),
        part: "<w:p",
    }
    path = tmp_path / "a.docx"
    path.write_bytes(hostile_files.package("word/document.xml", "x", parts))
    with pytest.raises(ValueError):
        preprocess_docx(path)


def run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


@pytest.mark.parametrize(
    ("runs", "shown"),
    [
        # What was moved stood in both places.
        (f"<w:moveFrom>{run('B ')}</w:moveFrom>{run('A ')}<w:moveTo>{run('B')}</w:moveTo>", "A B"),
        (f"{run('seen')}<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>", "seen"),
        ('<w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t>seen</w:t></w:r>', "seen"),
        # Their marks came out as [^2] and [cmt:0]; what somebody writes in brackets is text.
        (f'{run("Claim[^1]")}<w:r><w:footnoteReference w:id="2"/></w:r>{run(".")}', "Claim[^1]."),
        (f'{run("a")}<w:r><w:commentReference w:id="0"/></w:r>{run("b")}', "ab"),
        # Words that only a page parts were one.
        ('<w:r><w:t>end</w:t><w:br w:type="page"/><w:t>begin</w:t></w:r>', "end\nbegin"),
        ('<w:r><w:br w:type="page"/><w:t>Title</w:t></w:r>', "Title"),
        ("<w:r><w:t>a</w:t><w:cr/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r>", "a\nb\nc"),
        # Formulas stood before their paragraph.
        (f"{run('where ')}{FORMULA}{run(' is small.')}", "where x^2 is small."),
        (f"<m:oMathPara {M}>{FORMULA}</m:oMathPara>", "x^2"),
        # The reading stood before its word.
        (
            f"<w:r><w:ruby><w:rt>{run('すい')}</w:rt><w:rubyBase>{run('水')}</w:rubyBase></w:ruby>"
            f"</w:r>{run('の')}",
            "水(すい)の",
        ),
        (f"<w:r><w:ruby><w:rubyBase>{run('水')}</w:rubyBase></w:ruby></w:r>", "水"),
    ],
)
def test_a_paragraph_says_what_word_shows(tmp_path: Path, runs: str, shown: str) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(hostile_files.docx(f"<w:p>{runs}</w:p>"))
    assert parse_document(path, "a.docx").text == shown


def test_pages_that_end_in_what_is_left_out_still_count(tmp_path: Path) -> None:
    body = f"<w:p>{run('one')}<w:moveFrom>{BREAK}</w:moveFrom>{run('two')}</w:p>"
    result, text = edited(tmp_path, with_pages(body, 2))
    assert result.has_pages
    assert text == f"one{PAGE_MARK}two"


def test_notes_and_remarks_are_text_of_their_own(tmp_path: Path) -> None:
    def notes(kind: str, text: str) -> str:
        return f'<w:{kind}s {W}><w:{kind} w:id="2"><w:p>{run(text)}</w:p></w:{kind}></w:{kind}s>'

    body = "".join(f'<w:r><w:{kind}Reference w:id="2"/></w:r>' for kind in ("footnote", "comment"))
    path = tmp_path / "a.docx"
    data = hostile_files.docx(
        f"<w:p>{run('Claim')}{body}</w:p>",
        footnotes=notes("footnote", "The note."),
        comments=notes("comment", "A remark."),
    )
    path.write_bytes(data)
    assert parse_document(path, "a.docx").text == "Claim\n\nThe note.\n\nA remark."
