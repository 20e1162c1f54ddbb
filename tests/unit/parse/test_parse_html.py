"""HTML, mail and books: all that is shown, in order, and nothing that is not."""

from __future__ import annotations

import zipfile
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.documents import Notice, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.parse import parse_document, table_grid
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.web.html import add_html
from tests import hostile_files


def parsed(folder: Path, data: str | bytes, name: str, encoding: str = "") -> ParsedDocument:
    path = folder / "upload"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return parse_document(path, name, encoding)


def blocks_of(html: str) -> list[tuple[str, int, str]]:
    canonical = CanonicalText()
    add_html(html, canonical)
    document = canonical.finish("html", "test")
    return [(b.kind, b.level, document.text[b.start : b.end]) for b in document.blocks]


PAGE = """<!DOCTYPE html><html><head><title> The
  page </title><style>p{}</style><script>var x = "<p>no</p>";</script></head><body>
<h1>头 <b>条</b></h1>bare text<p>one <b>bold</b> <a href="http://x">link</a><br>next 5*3*2 _x_ &lt;b&gt;&amp;nbsp;</p>
<ul><li>a<ul><li>b</ul><li>c <p>more</p></ul><ol start=3><li>x<li>y</ol>
<pre><code>def f():
    return 1
</code></pre><blockquote><p>quoted</blockquote>
<table><caption>Prices</caption><tr><th>part</th><th>price</th></tr><tr><td>HX<br>1</td><td>a|b</td></table>
<div>in a div<div>deeper</div>tail</div><dl><dt>T<dd>D</dl><img alt="a pump" src="x.png">
<div style="display: none">hidden</div><span hidden>hidden</span><noscript>off</noscript>
<textarea>typed</textarea><footer>foot</footer></body></html>after"""


def test_a_page_gives_all_that_it_shows_in_order() -> None:
    assert blocks_of(PAGE) == [
        ("heading", 1, "头 条"),
        ("paragraph", 0, "bare text"),
        ("paragraph", 0, "one bold link\nnext 5*3*2 _x_ <b>&nbsp;"),
        ("list", 0, "- a\n  - b\n- c\n  more"),
        ("list", 0, "3. x\n4. y"),
        ("code", 0, "def f():\n    return 1"),
        ("paragraph", 0, "quoted"),
        ("paragraph", 0, "Prices"),
        ("table", 0, "| part | price |\n| HX 1 | a\\|b |"),
        ("paragraph", 0, "in a div"),
        ("paragraph", 0, "deeper"),
        ("paragraph", 0, "tail"),
        ("paragraph", 0, "T"),
        ("paragraph", 0, "D"),
        ("paragraph", 0, "a pump"),
        ("paragraph", 0, "typed"),
        ("paragraph", 0, "foot"),
        ("paragraph", 0, "after"),
    ]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>unclosed <i>tags", ["unclosed tags"]),
        ("<head><title>t</title><p>no body", ["no body"]),
        (
            "<table><tr><td>only column</td></tr><tr><td>two</td></tr></table>",
            ["only column", "two"],
        ),
        ("<table><td>a<td>b", ["| a | b |"]),
        (
            "<table><tr><td>x<table><tr><td>in1<td>in2</table><td>y</table>",
            ["x", "| in1 | in2 |", "y"],
        ),
        (f"<table><tr><td>menu<td>{'long ' * 200}</table>", ["menu", ("long " * 200).strip()]),
        ("<h1>a</h2>b", ["a", "b"]),
        ("</p></ul></table></pre>text", ["text"]),
        ("<p hidden>a <b>c</b><p>b", ["b"]),
        ("<div><p hidden>a</div>b<p style='visibility: hidden'>c</p>d", ["b", "d"]),
        ("<ul><li hidden>a<ul><li>x</ul><li>b</ul>", ["- b"]),
        ("<table><tr><td hidden>a<td>b<tr hidden><td>c<tr><td>d</table>", ["b", "d"]),
        ("<select><option>1</select>text", ["text"]),
        ("&#x6c34;&#27893;&unknown;", ["水泵&unknown;"]),
        ("a<!-- comment -->b<![CDATA[c]]>", ["ab"]),
        ("<li>outside of a list", ["outside of a list"]),
        ("<ol start='x'><li>a</ol>", ["1. a"]),
        ("<ol start='²'><li>a</ol><ol start=0><li>b</ol>", ["1. a", "0. b"]),
        ("<div hidden>a<div>b</div>still hidden</div>shown", ["shown"]),
        ("<svg><title>icon</title><g><g></g>x</g></svg>text", ["text"]),
        ("<a><img alt=Home></a><a><img alt=News></a>", ["Home News"]),
        ("Donau&shy;dampf&shy;schiff", ["Donaudampfschiff"]),
        ("水<img src=x>泵<img alt=''>站", ["水泵站"]),
        ("10<sup>-2</sup> m<sup> 3 </sup>, H<sub>2</sub>O<sup><a>1</a></sup>", ["10⁻² m³, H₂O¹"]),
        ("M<sup>me</sup> x<sup>[1]</sup> a<sup>2<p>b</sup>c", ["Mme x[1] a2", "bc"]),
    ],
)
def test_bad_markup_loses_no_words(html: str, expected: list[str]) -> None:
    assert [text for _, _, text in blocks_of(html)] == expected


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (
            "<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rp>(</rp><rt>じ</rt><rp>)</rp></ruby>を",
            "漢字(かんじ)を",
        ),
        ("<ruby>水<rt>すい</ruby>の", "水(すい)の"),
        ("<ruby><rb>漢<rb>字<rt>かん<rt>じ</ruby>x", "漢字(かんじ)x"),
        ("<ruby>水<rp>(<rt>すい<rp>)</ruby>の", "水(すい)の"),
        ("<p><ruby>水<rt>すい<p>next", "水(すい)"),
        ("<ruby>水</ruby>泵", "水泵"),
    ],
)
def test_a_word_with_its_reading_above_stays_whole(html: str, expected: str) -> None:
    assert blocks_of(html)[0][2] == expected


def test_a_table_within_a_table_keeps_its_rows() -> None:
    inner = "<table><tr><td>in1<td>in2<tr><td>in3<td>in4</table>"
    layout = f"<table><tr><td>outer{inner}</table>"
    assert [text for _, _, text in blocks_of(layout)] == ["outer", "| in1 | in2 |\n| in3 | in4 |"]
    rows = f"<tr><th>Part<th>Price<tr><td>pump<td>9<tr><td>set {inner}<td>12"
    assert [text for _, _, text in blocks_of(f"<table>{rows}</table>")] == [
        "| Part | Price |\n| pump | 9 |\n| set | 12 |",
        "| in1 | in2 |\n| in3 | in4 |",
    ]


def test_a_header_of_two_rows_names_each_column() -> None:
    rows = (
        "<tr><th rowspan=2>Site<th colspan=2>2026<tr><th>Q1<th>Q2"
        "<tr><td rowspan=2>East<td>1<td>2<tr><td>3<td>4"
    )
    assert blocks_of(f"<table>{rows}</table>") == [
        (
            "table",
            2,
            "| Site | 2026 | 2026 |\n| Site | Q1 | Q2 |\n| East | 1 | 2 |\n| East | 3 | 4 |",
        )
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("<tr><th colspan=2>Name<th>Tel<tr><td>a<td>b<td>1", ["Name | Name | Tel", "a | b | 1"]),
        ("<tr><td rowspan=2>A<td>B<tr><td>C<tr><td>D<td>E", ["A | B", "A | C", "D | E"]),
        ("<tr><td>a<td rowspan=3 colspan=2>b<td>c<tr><td>d<td>e", ["a | b |  | c", "d | b |  | e"]),
        ("<tr><td colspan=0>a<td rowspan=x>b<tr><td>c<td>d", ["a | b", "c | d"]),
        ("<td colspan=2>a<td>b<tr><td>c<td>d<td>e", ["a |  | b", "c | d | e"]),
    ],
)
def test_merged_cells_leave_the_others_under_their_headings(rows: str, expected: list[str]) -> None:
    ((kind, _, text),) = blocks_of(f"<table>{rows}</table>")
    assert kind == "table"
    assert [line.removeprefix("| ").removesuffix(" |") for line in text.split("\n")] == expected


def test_a_cell_that_claims_a_million_columns_gets_a_few() -> None:
    texts = [block[2] for block in blocks_of("<table><td colspan=1000000 rowspan=9999999>a<td>b")]
    assert sum(text.count("|") - 2 for text in texts) == table_grid.MAX_SPAN
    assert blocks_of("<table><td>a<td>b</table>")[0][2] == "| a | b |"


@given(
    st.lists(
        st.sampled_from(
            [
                "<p>",
                "</p>",
                "<ul>",
                "<li>",
                "</ul>",
                "<table>",
                "<tr>",
                "<td>",
                "</td>",
                "</table>",
                "<h2>",
                "</h2>",
                "<pre>",
                "</pre>",
                "<br>",
                "<div>",
                "</div>",
                "<ol>",
                "</ol>",
                "<td colspan=3>",
                "<td rowspan=2>",
                "<ruby>",
                "<rt>",
                "</ruby>",
            ]
        ),
        max_size=25,
    )
)
def test_every_word_survives_any_nesting(tags: list[str]) -> None:
    words = [f"w{number}w" for number in range(len(tags))]
    html = "".join(f"{tag}{word} " for tag, word in zip(tags, words, strict=True))
    text = " ".join(text for _, _, text in blocks_of(html))
    assert all(word in text for word in words)


@pytest.mark.parametrize(
    ("codec", "meta"),
    [
        ("gb18030", ""),
        ("gb18030", '<meta charset="gb2312">'),
        ("big5", '<meta http-equiv="Content-Type" content="text/html; charset=big5">'),
        ("utf-8", '<meta charset="gbk">'),
        ("utf-16", ""),
        ("utf-8", '<meta charset="no-such-thing">'),
        ("utf-8", '<meta charset="iso-8859-1">'),
        ("utf-8", '<meta charset="utf-16">'),
        ("utf-8", '<meta charset="cp037">'),
        ("utf-8-sig", '<meta charset="gbk">'),
    ],
)
def test_a_page_s_encoding_is_declared_or_told(tmp_path: Path, codec: str, meta: str) -> None:
    body = (
        "在歐洲，梵語的學術研究由德國學者開創。"
        if codec == "big5"
        else "水箱每周清洗一次，更换预过滤网。"
    )
    html = f"<html><head>{meta}<title>水</title></head><body><p>{body}</p></body></html>"
    document = parsed(tmp_path, html.encode(codec), "a.html")
    assert document.text == body
    assert (document.kind, document.title, document.pages) == ("html", "水", ())


def test_a_page_of_scripts_alone_holds_no_text(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="holds no text"):
        parsed(tmp_path, "<html><script>var a = 'text'</script></html>", "a.html")


def test_a_very_long_page_is_cut_with_a_word() -> None:
    canonical = CanonicalText(max_chars=30)
    add_html("<p>twelve chars</p>" * 9, canonical)
    document = canonical.finish("html", "test")
    assert document.text == "twelve chars\n\ntwelve chars\n\ntwelve"
    assert [*map(str, document.warnings)] == ["Only the first 30 characters are kept."]


def mail(**headers: str) -> EmailMessage:
    message = EmailMessage()
    for name, value in headers.items():
        message[name] = value
    return message


def test_a_mail_is_its_headers_its_text_and_the_names_of_attachments(tmp_path: Path) -> None:
    message = mail(
        Subject="水泵 故障", From="Kim <kim@a.example>", To="b@a.example", Bcc="c@a.example"
    )
    message["Date"] = "Sat, 28 Nov 2026 04:00:00 +0000"
    message.set_content("水泵停了。\n\n请处理。")
    message.add_alternative("<p>not this one</p>", subtype="html")
    message.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="照片.pdf")
    message.add_attachment("secret words", filename="note.txt")
    document = parsed(tmp_path, message.as_bytes(), "a.eml")
    assert document.text == (
        "Subject: 水泵 故障\nFrom: Kim <kim@a.example>\nTo: b@a.example\n"
        "Date: Sat, 28 Nov 2026 04:00:00 +0000\n\n"
        "水泵停了。\n\n请处理。\n\nAttachments:\n- 照片.pdf\n- note.txt"
    )
    assert document.title == "水泵 故障"
    assert "Attachments are not read" in str(document.warnings[0])


def test_a_mail_of_html_alone_and_a_forwarded_one_are_read(tmp_path: Path) -> None:
    inner = mail(Subject="inner", From="x@a.example")
    inner.set_content("inner words")
    message = mail(Subject="outer", From="y@a.example")
    message.set_content("<h1>Head</h1><p>html words</p>", subtype="html")
    message.make_mixed()
    message.add_attachment(inner)
    document = parsed(tmp_path, message.as_bytes(), "a.eml")
    for words in ("Subject: outer", "Head", "html words", "Subject: inner", "inner words"):
        assert words in document.text
    kinds = {document.text[b.start : b.end]: (b.kind, b.level) for b in document.blocks}
    assert kinds["Head"] == ("heading", 1)


@pytest.mark.parametrize("declared", ["us-ascii", "gb2312", "no-such", "utf-8"])
def test_a_mail_that_lies_about_its_characters_is_read(tmp_path: Path, declared: str) -> None:
    body = "水箱每周清洗一次，更换预过滤网。".encode("gb18030")
    head = f"From: a@b.example\nSubject: x\nContent-Type: text/plain; charset={declared}\n\n"
    assert "更换预过滤网" in parsed(tmp_path, head.encode() + body, "a.eml").text


def test_a_mail_nested_without_end_is_refused(tmp_path: Path) -> None:
    head = b"From: a@b.example\nSubject: x\n"
    nest = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(90)
    )
    with pytest.raises(DocumentError, match="is damaged"):
        parsed(tmp_path, head + nest + b"\n\nx", "a.eml")


def book(spine: str, chapters: dict[str, str], manifest: str) -> bytes:
    container = '<container><rootfiles><rootfile full-path="OEBPS/a.opf"/></rootfiles></container>'
    opf = (
        '<package xmlns:dc="d"><metadata><dc:title>温室手册</dc:title></metadata>'
        f"<manifest>{manifest}</manifest><spine>{spine}</spine></package>"
    )
    parts = {
        f"OEBPS/{name}": f"<html><body>{text}</body></html>" for name, text in chapters.items()
    }
    return hostile_files.zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "OEBPS/a.opf": opf,
            **parts,
        }
    )


def test_a_book_is_read_in_the_order_of_its_spine(tmp_path: Path) -> None:
    manifest = (
        '<item id="n" href="nav.xhtml" properties="nav"/><item id="1" href="t/a%20b.xhtml"/>'
        '<item id="2" href="z.xhtml"/><item id="3" href="gone.xhtml"/>'
    )
    spine = "".join(f'<itemref idref="{which}"/>' for which in "n213x")
    chapters = {
        "nav.xhtml": "contents",
        "t/a b.xhtml": "<h1>二</h1>later",
        "z.xhtml": "<h1>一</h1>first",
    }
    document = parsed(tmp_path, book(spine, chapters, manifest), "a.epub")
    assert document.text == "一\n\nfirst\n\n二\n\nlater"
    assert (document.kind, document.title) == ("epub", "温室手册")
    assert document.warnings == (Notice("A chapter of the book is missing from the file."),)


def test_pictures_among_the_chapters_are_passed_over_and_none_is_read_twice(tmp_path: Path) -> None:
    manifest = (
        '<item id="c" href="c.jpg" media-type="image/jpeg"/>'
        '<item id="1" href="1.xhtml" media-type="application/xhtml+xml"/>'
    )
    spine = "".join(f'<itemref idref="{which}"/>' for which in "c11")
    data = book(spine, {"c.jpg": "\0" * 900, "1.xhtml": "words"}, manifest)
    assert parsed(tmp_path, data, "a.epub").text == "words"


@pytest.mark.parametrize(("locked", "is_open"), [("OEBPS/1.xhtml", False), ("OEBPS/a.ttf", True)])
def test_a_book_whose_chapters_are_encrypted_is_protected(
    tmp_path: Path, locked: str, is_open: bool
) -> None:
    out = BytesIO(book('<itemref idref="1"/>', {"1.xhtml": "x"}, '<item id="1" href="1.xhtml"/>'))
    with zipfile.ZipFile(out, "a") as bundle:
        reference = f'<e:CipherReference URI="{locked}"/>'
        bundle.writestr("META-INF/encryption.xml", f'<x xmlns:e="u">{reference}</x>')
    if is_open:
        assert parsed(tmp_path, out.getvalue(), "a.epub").text == "x"
        return
    with pytest.raises(DocumentError, match="“a.epub” is protected in a way that cannot be opened"):
        parsed(tmp_path, out.getvalue(), "a.epub")


@pytest.mark.parametrize("broken", ["META-INF/container.xml", "OEBPS/a.opf"])
def test_a_broken_book_is_damaged(tmp_path: Path, broken: str) -> None:
    parts = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfile full-path="OEBPS/a.opf"/></container>',
        "OEBPS/a.opf": "<p/>",
    }
    with pytest.raises(DocumentError, match="is damaged"):
        parsed(tmp_path, hostile_files.zipped({**parts, broken: "<not closed"}), "a.epub")
    for encoding in ("no-such", "gbk"):
        told = f"<?xml version='1.0' encoding='{encoding}'?>{parts[broken]}"
        with pytest.raises(DocumentError, match="is damaged"):
            parsed(tmp_path, hostile_files.zipped({**parts, broken: told}), "a.epub")
    del parts[broken]
    with pytest.raises(DocumentError, match="is damaged"):
        parsed(tmp_path, hostile_files.zipped(parts), "a.epub")
