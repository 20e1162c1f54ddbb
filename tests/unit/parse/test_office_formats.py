"""RTF, OpenDocument, Excel and PowerPoint 97, Outlook, OFD and saved pages, as people see them."""

from __future__ import annotations

import shutil
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from rag.core.documents import ParsedDocument
from rag.core.errors import DocumentError
from rag.providers.sandbox.parser import SandboxedParser
from rag.stages.detect.sniff import sniff_kind
from rag.stages.parse import parse_document
from rag.stages.parse.mail.mail import UNREAD_ATTACHMENTS
from rag.stages.parse.spreadsheet import sheets_text
from tests import hostile_files
from tests.office_files import office_file


def read(folder: Path, name: str, data: bytes) -> ParsedDocument:
    path = folder / "upload"
    path.write_bytes(data)
    return parse_document(path, name)


def sample(folder: Path, name: str) -> ParsedDocument:
    return read(folder, name, office_file(name))


def blocks(document: ParsedDocument) -> list[tuple[str, str]]:
    return [(one.kind, document.text[one.start : one.end]) for one in document.blocks]


HANDBOOK = """Handbook 手册

Safety

Wear a helmet. 佩戴安全帽。

Rules

- first item
- second item
1. step one

| Part | Torque | Note |
| Bolt both | 11 | 12 |
| Bolt both | 21 | 22 |

10² is a hundred

Second page text.

ACME header"""


@pytest.mark.parametrize("name", ["handbook.odt", "handbook.fodt"])
def test_an_opendocument_text_has_its_headings_lists_and_merged_cells(
    tmp_path: Path, name: str
) -> None:
    document = sample(tmp_path, name)
    assert document.kind == "odt"
    assert document.text == HANDBOOK.replace("second item\n1.", "second item\n\n1.")
    assert [text for kind, text in blocks(document) if kind == "heading"] == [
        "Handbook 手册",
        "Safety",
        "Rules",
    ]
    assert not document.warnings


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
def test_a_doc_is_read_without_what_was_deleted_and_tells_what_libreoffice_would_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Kingsoft's programs call files of Word .wps.
    document = read(tmp_path, "handbook.wps", office_file("handbook.doc"))
    assert (document.text, document.kind, document.warnings) == (HANDBOOK, "doc", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    lost, deleted = sample(tmp_path, "handbook.doc").warnings
    assert str(lost).startswith("It was read without LibreOffice: raised figures")
    assert str(deleted).startswith("Text that was deleted under change tracking may still be")


@pytest.mark.parametrize("suffix", ["fods", "fodp"])
def test_flat_sheets_and_slides_are_read_as_packed_ones(tmp_path: Path, suffix: str) -> None:
    name = {"fods": "sales.ods", "fodp": "slides.odp"}[suffix]
    packed = sample(tmp_path, name)
    with zipfile.ZipFile(BytesIO(office_file(name))) as bundle:
        content = bundle.read("content.xml").decode()
    family = {"fods": "spreadsheet", "fodp": "presentation"}[suffix]
    mimetype = f"office:mimetype='application/vnd.oasis.opendocument.{family}'"
    flat = content.replace("office:document-content", f"office:document {mimetype}", 1)
    flat = flat.replace("office:document-content", "office:document")
    document = read(tmp_path, f"a.{suffix}", flat.encode())
    assert (document.text, document.kind) == (packed.text, f"od{suffix[-1]}")
    bomb = flat.replace("<office:document ", '<!DOCTYPE x [<!ENTITY a "b">]><office:document ', 1)
    with pytest.raises(DocumentError, match="declares entities"):
        read(tmp_path, f"a.{suffix}", bomb.encode())


def test_rtf_without_libreoffice_is_read_and_tells_what_may_be_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    document = sample(tmp_path, "handbook.rtf")
    assert "佩戴安全帽" in document.text and "| Part | Torque | Note |" in document.text
    (notice,) = document.warnings
    assert "merged cells of it may be wrong. Install LibreOffice" in str(notice)


def test_works_without_libreoffice_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DocumentError, match=r"of Microsoft Works.*install LibreOffice"):
        read(tmp_path, "a.wps", hostile_files.ole({"MatOST": b"x" * 5000, "CONTENTS": b"y" * 5000}))


SALES = """Sales

| Region | Shop | Units | Share | Date | Code | Total |
| 华东区 | 门店1 | 10 | 12.5% | 2026年7月1日 | 00001 | 210 |
| 华东区 | 门店2 | 20 | 25.0% | 2026年7月2日 | 00002 |  |
| 华东区 | 门店3 | 30 | 37.5% | 2026年7月3日 | 00003 |  |
| North\\|South | 门店4 | 40 | 50.0% | 2026年7月4日 | 00004 |  |
| North\\|South | 门店6 | 60 | 75.0% | 2026年7月6日 | 00006 |  |"""


@pytest.mark.parametrize("name", ["sales.xls", "sales.ods"])
def test_sheets_show_their_values_and_leave_out_what_is_hidden(tmp_path: Path, name: str) -> None:
    document = sample(tmp_path, name)
    assert document.text == SALES
    assert [page.label for page in document.pages] == ["Sales"]
    assert str(document.warnings[0]).startswith(
        "Hidden in the file and left out: sheets 1, rows 1, columns 0, comments 1."
    )


@pytest.mark.parametrize("name", ["sales.xls", "sales.ods"])
def test_hidden_cells_of_all_spreadsheets_can_be_taken_in(tmp_path: Path, name: str) -> None:
    path = tmp_path / "upload"
    path.write_bytes(office_file(name))
    module = "xls" if name.endswith("xls") else "ods"
    parsers = {
        module: {
            "module": "rag.stages.parse.builtin",
            "class": f"{module.capitalize()}Parser",
            "options": {"with_hidden": True},
        }
    }
    document = SandboxedParser(parsers=parsers).parse(path, name)
    assert "hidden sheet text" in document.text and "门店5" in document.text
    assert "B2 [hidden] " in document.text and "secret remark" in document.text


def test_slides_of_opendocument_have_tables_and_remarks(tmp_path: Path) -> None:
    document = sample(tmp_path, "slides.odp")
    assert document.text.replace("\f", "\n\n") == (
        "Quarterly report\n\n- First point\n- Second point 重点\n\nA remark for the speaker\n\n"
        "Table slide\n\n| Cell 0.0 | Cell 0.1 |\n| Cell 1.0 | Cell 1.1 |\n| Cell 2.0 | Cell 2.1 |"
    )
    assert [page.label for page in document.pages] == ["Quarterly report", "Table slide"]


def test_old_slides_without_impress_have_titles_and_say_that_tables_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    document = sample(tmp_path, "slides.ppt")
    assert [page.label for page in document.pages] == ["Quarterly report", "Table slide"]
    assert "Second point 重点" in document.text and "Cell 2.1" in document.text
    assert "Install LibreOffice with Impress" in str(document.warnings[0])


@pytest.mark.parametrize("share", [0.5, 0.75, 0.9])
def test_a_message_that_is_cut_is_read_in_part_and_says_so(tmp_path: Path, share: float) -> None:
    data = office_file("order.msg")
    document = read(tmp_path, "order.msg", data[: int(share * len(data))])
    assert str(document.warnings[0]).startswith("The file ends before its content does")


def test_a_message_of_outlook_names_its_attachments(tmp_path: Path) -> None:
    document = sample(tmp_path, "order.msg")
    assert document.text == (
        'Subject: Pump order 水泵\nFrom: Sales Counter <sales@example.com>\nTo: "Buy" <buy@example.com>\n'
        "Date: 2026-07-01T09:30:00+00:00\n\nDear all,\n\nthe pump HX-4471 costs 86 EUR.\n\n"
        "Regards\nSales\n\nAttachments:\n- notes.txt"
    )
    assert document.warnings == (UNREAD_ATTACHMENTS,)


def test_a_saved_page_is_read_without_its_styles(tmp_path: Path) -> None:
    document = sample(tmp_path, "page.mhtml")
    assert document.text.endswith("a picture\n\nframed words")
    assert ("heading", "Pump guide") in blocks(document)
    assert (document.title, document.warnings) == ("Pump guide 水泵", ())


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_mail_in_utf16_is_a_mail(tmp_path: Path, codec: str) -> None:
    mail = "From: a@example.com\r\nTo: b@example.com\r\nSubject: 水泵\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=gb2312\r\n\r\n扭矩为三十牛米。The torque is 30 Nm.\r\n"
    document = read(tmp_path, "a.eml", mail.encode(codec))
    assert (document.kind, document.title) == ("eml", "水泵")
    assert document.text.endswith("扭矩为三十牛米。The torque is 30 Nm.")


def ofd(pages: list[str], more: dict[str, bytes] | None = None) -> bytes:
    space = 'xmlns:ofd="http://www.ofdspec.org/2016"'
    listed = "".join(f'<ofd:Page ID="{n}" BaseLoc="Pages/P{n}.xml"/>' for n in range(len(pages)))
    members: dict[str, str | bytes] = {
        "OFD.xml": f"<ofd:OFD {space}><ofd:DocBody><ofd:DocRoot>/Doc_0/Document.xml</ofd:DocRoot></ofd:DocBody></ofd:OFD>",
        "Doc_0/Document.xml": f'<ofd:Document {space}><ofd:CommonData><ofd:TemplatePage ID="9" BaseLoc="Tpls/T.xml"/></ofd:CommonData><ofd:Pages>{listed}</ofd:Pages></ofd:Document>',
        "Doc_0/Tpls/T.xml": f"<ofd:Page {space}><ofd:Content><ofd:Layer>{written(20, 20, '电子发票')}</ofd:Layer></ofd:Content></ofd:Page>",
        **(more or {}),
    }
    for n, content in enumerate(pages):
        members[f"Doc_0/Pages/P{n}.xml"] = (
            f'<ofd:Page {space}><ofd:Template TemplateID="9"/><ofd:Content><ofd:Layer>{content}</ofd:Layer></ofd:Content></ofd:Page>'
        )
    return hostile_files.zipped(members)


def written(x: float, y: float, text: str) -> str:
    return f'<ofd:TextObject Boundary="{x} {y} 100 5" Size="4"><ofd:TextCode X="0" Y="4" DeltaX="g {len(text) - 1} 4">{text}</ofd:TextCode></ofd:TextObject>'


def test_an_ofd_is_its_words_by_page_with_its_template(tmp_path: Path) -> None:
    rows = [
        ("名称", "数量", "金额"),
        ("水泵", "三台", "三百元"),
        ("阀门", "五只", "七十元"),
        ("螺栓", "九颗", "十二元"),
    ]
    table = "".join(
        written(20 + 40 * column, 60 + 8 * row, text)
        for row, cells in enumerate(rows)
        for column, text in reversed(list(enumerate(cells)))
    )
    document = read(
        tmp_path, "a.ofd", ofd([written(20, 40, "购买方名称：某某科技有限公司") + table])
    )
    first = document.text.partition("\f")[0]
    assert first.startswith("电子发票\n")
    assert "购买方名称：某某科技有限公司" in first
    assert "| 水泵 | 三台 | 三百元 |" in first
    assert len(document.pages) == 1


def with_body(name: str, body: str) -> bytes:
    with zipfile.ZipFile(BytesIO(office_file(name))) as bundle:
        text = bundle.read("content.xml").decode()
    head = text[: text.index("<office:body>")]
    content = f"{head}<office:body>{body}</office:body></office:document-content>"
    return hostile_files.with_members(office_file(name), {"content.xml": content})


def test_numbered_headings_of_opendocument_stand_in_lists(tmp_path: Path) -> None:
    def item(title: str, level: int) -> str:
        tags = "<text:list><text:list-item>" * level, "</text:list-item></text:list>" * level
        inner = f'{tags[0]}<text:h text:outline-level="{level}">{title}</text:h>{tags[1]}'
        head = '<text:list text:style-name="WWNum5" text:continue-numbering="true">'
        return inner.replace("<text:list>", head, 1)

    shown = item("One", 1) + "<text:p>words</text:p>" + item("Two", 1)
    made = with_body("handbook.odt", f"<office:text>{shown}</office:text>")
    assert blocks(read(tmp_path, "a.odt", made))[:3] == [
        ("heading", "1. One"),
        ("paragraph", "words"),
        ("heading", "2. Two"),
    ]


@pytest.mark.parametrize("name", ["sales.ods", "handbook.odt", "slides.odp"])
def test_damaged_hostile_and_encrypted_opendocument_is_one_sentence(
    tmp_path: Path, name: str
) -> None:
    data = office_file(name)
    bomb = b"<office:document-content>" + b" " * 11_000_000
    laughs = b"<!DOCTYPE x [<!ENTITY a 'ha'>]><x>&a;</x>"
    locked = b"<manifest:manifest><manifest:encryption-data/></manifest:manifest>"
    cases = [
        (data[: len(data) // 2], "damaged"),
        (hostile_files.with_members(data, {"content.xml": b"<a><b>"}), "damaged"),
        (hostile_files.with_members(data, {"content.xml": laughs}), "declares entities"),
        (hostile_files.with_members(data, {"META-INF/manifest.xml": locked}), "needs a password"),
    ]
    if name == "handbook.odt":
        cases.append((hostile_files.with_members(data, {"content.xml": bomb}), "would unpack to"))
    for bad, words in cases:
        with pytest.raises(DocumentError, match=words):
            read(tmp_path, name, bad)


def test_deep_opendocument_is_read_and_hostile_counts_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sheets_text, "MAX_CELLS", 40_000)

    deep = "<text:section>" * 3_000 + "<text:p>deep words</text:p>" + "</text:section>" * 3_000
    made = with_body("handbook.odt", f"<office:text>{deep}</office:text>")
    assert "deep words" in read(tmp_path, "a.odt", made).text
    cell = '<table:table-cell table:number-columns-repeated="16384"><text:p>x</text:p></table:table-cell>'
    table = f'<table:table table:name="T"><table:table-row table:number-rows-repeated="1048576">{cell}</table:table-row></table:table>'
    made = with_body("sales.ods", f"<office:spreadsheet>{table}</office:spreadsheet>")
    document = read(tmp_path, "a.ods", made)
    assert "Only the first 40000 cells are read." in map(str, document.warnings)


def test_bombs_and_entities_of_ofd_are_refused_before_they_are_read(tmp_path: Path) -> None:
    for more, words in (
        ({"Doc_0/Res/a.xml": b" " * 11_000_000}, "would unpack to"),
        ({"Doc_0/Document.xml": b"<!DOCTYPE x [<!ENTITY a 'ha'>]><x>&a;</x>"}, "declares entities"),
        ({"Doc_0/Document.xml": b"<x"}, "damaged"),
    ):
        with pytest.raises(DocumentError, match=words):
            read(tmp_path, "a.ofd", ofd(["", ""], more))
    with pytest.raises(DocumentError, match="holds no text, only images"):
        read(tmp_path, "a.ofd", ofd([""], {"Doc_0/Tpls/T.xml": b"<x/>"}))


@pytest.mark.parametrize("name", ["sales.xls", "slides.ppt"])
def test_a_damaged_compound_file_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    data = office_file(name)
    for bad in (data[: len(data) // 3], data[:600] + bytes(len(data) - 600)):
        with pytest.raises(DocumentError, match="damaged|no text"):
            read(tmp_path, name, bad)


def test_encrypted_compound_files_need_a_password(tmp_path: Path) -> None:
    data = bytearray(office_file("sales.xls"))
    at = data.index(b"\x09\x08\x10\x00\x00\x06")
    # The second record of the workbook becomes FILEPASS.
    data[at + 20 : at + 22] = b"\x2f\x00"
    with pytest.raises(DocumentError, match="needs a password"):
        read(tmp_path, "a.xls", bytes(data))
    locked = hostile_files.ole(
        {"PowerPoint Document": b"x" * 5000, "EncryptedSummary": b"y" * 5000}
    )
    with pytest.raises(DocumentError, match="needs a password"):
        read(tmp_path, "a.ppt", locked)


def test_programs_of_one_family_are_told_by_content(tmp_path: Path) -> None:
    (tmp_path / "upload").write_bytes(office_file("sales.xls"))
    assert sniff_kind(tmp_path / "upload", "a.et") == "xls"
    assert not read(tmp_path, "a.et", office_file("sales.xls")).warnings[1:]
    document = read(
        tmp_path, "a.xls", b"<html><body><table><tr><td>Bolt<td>5</table></body></html>"
    )
    assert "by its content .html" in str(document.warnings[0])
