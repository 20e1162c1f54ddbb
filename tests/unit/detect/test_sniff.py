"""Sniffing: the content decides, and what is refused is told why and what to do."""

from __future__ import annotations

import struct
import time
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from rag.core.errors import DocumentError
from rag.stages.detect import sniff as sniff_zip
from rag.stages.detect.sniff import sniff_kind
from tests import hostile_files

PDF = hostile_files.text_pdf([["A pump moves water."]])
DOCX = hostile_files.docx(hostile_files.paragraph("text"))
MAIL = (
    b"Received: by x\nFrom: a@b.example\nTo: c@d.example\nSubject: hi\nMIME-Version: 1.0\n\nbody\n"
)
MAIN = "application/vnd.openxmlformats-officedocument."


@pytest.fixture
def sniff(tmp_path: Path):
    def call(data: bytes, name: str) -> str:
        path = tmp_path / "upload"
        path.write_bytes(data)
        return sniff_kind(path, name)

    return call


def refusal(sniff, data: bytes, name: str) -> str:
    with pytest.raises(DocumentError) as caught:
        sniff(data, name)
    assert caught.value.params["name"] == name
    assert caught.value.hint
    return str(caught.value)


def epub(mimetype: bytes = b"application/epub+zip", chapter: str = "<html/>") -> bytes:
    return hostile_files.zipped({"mimetype": mimetype, "OEBPS/a.xhtml": chapter})


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (PDF, "x.pdf", "pdf"),
        (PDF, "x.docx", "pdf"),
        (PDF, "x.txt", "pdf"),
        (b"\r\n" + PDF, "x.bin", "pdf"),
        (b"junk " * 200 + PDF, "x.pdf", "pdf"),
        (DOCX, "x.docx", "docx"),
        (DOCX, "x.pdf", "docx"),
        (DOCX, "x.doc", "docx"),
        (epub(), "x.zip", "epub"),
        (hostile_files.ole({"WordDocument": b"\xec\xa5" + bytes(60)}), "x.docx", "doc"),
        (b"\xdb\xa5-\x00" + bytes(400), "word2.doc", "doc"),
        (b"{\\rtf1 x}", "a.doc", "rtf"),
        (b"\n{\\rtf1 x}", "a.rtf", "rtf"),
        (hostile_files.ole({"Workbook": b"x"}), "a.xlsx", "xls"),
        (hostile_files.ole({"PowerPoint Document": b"x"}), "a.dps", "ppt"),
        (hostile_files.ole({"__properties_version1.0": b"x"}), "a.eml", "msg"),
        (hostile_files.ole({"MatOST": b"x"}), "a.wps", "wps"),
        (b"<!DOCTYPE html><html><p>x</p></html>", "x.doc", "html"),
        (b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- c --><html><p>x</p></html>", "x.txt", "html"),
        ("\ufeff<html><p>宽</p></html>".encode("utf-16-le"), "x.txt", "html"),
        (b"<!-- a -->\n<!-- b > c -->\n<html><p>x</p></html>", "x.txt", "html"),
        (b"<!-- a -- b --><p>only a piece</p>", "x.txt", "txt"),
        (b"\nFrom: A\nReceived: B\nSubject: no mail\n\nx", "x.eml", "txt"),
        (b"<p>only a piece</p>", "x.html", "html"),
        (b"<p>only a piece</p>", "x.txt", "txt"),
        (b"# How to write <html>\n\n<body> is ...\n", "x.md", "md"),
        (MAIL, "x.txt", "eml"),
        (b"Subject: hi\n\nbody", "x.eml", "eml"),
        (b"From: A\nTo: B\nDate: today\nSubject: memo\n\nNo mail, a memo.", "x.txt", "txt"),
        (b"a,b\n1,2\n", "x.csv", "csv"),
        (b"a\tb\n", "X.TSV", "csv"),
        (b"# T\n", "x.MARKDOWN", "md"),
        (b"The mark %PDF- begins a PDF.", "x.md", "md"),
        (b"plain", "x", "txt"),
        (b"plain", "x.exe", "txt"),
        (b"BM is not always a bitmap", "x.txt", "txt"),
        (b" " * 200_000 + b"late text", "x.txt", "txt"),
    ],
)
def test_the_content_tells_the_kind(sniff, data: bytes, name: str, kind: str) -> None:
    assert sniff(data, name) == kind


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\xff\xd8\xff\xe0", "jpg"),
        (b"\x89PNG\r\n\x1a\n", "png"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "webp"),
        (b"BM\x36\0\0\0\0\0\0\0\x36\0", "bmp"),
        (b"II*\0xx", "tiff"),
        (b"GIF89a", "gif"),
    ],
)
def test_images_are_known_whatever_they_are_called(sniff, data: bytes, kind: str) -> None:
    assert sniff(data, "a.pdf") == kind


@pytest.mark.parametrize(
    ("data", "name", "reason", "advice"),
    [
        (b"", "a.pdf", "is empty", "Upload a file with text"),
        (b" \r\n\t" * 50_000, "a.txt", "holds no text", "Upload a file with text"),
        (b"\0\0\0\x18ftypheic", "a.heic", "is an image", "Save it as .png"),
        (b"7z\xbc\xaf\x27\x1c...", "a.docx", "is an archive", "Unpack it"),
        (b"\x1f\x8b\x08\0", "a.txt", "is an archive", "Unpack it"),
        (b"a".ljust(257, b"\0") + b"ustar", "a.tar", "is an archive", "Unpack it"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "a.docx", "Git LFS", "real file"),
        (
            b'<?xml version="1.0"?><?mso-application progid="Word.Document"?>',
            "a.doc",
            "Word XML",
            "Save it as .docx",
        ),
        (hostile_files.zipped({"a.txt": "x"}), "a.docx", "is a zip, not a document", "Unpack it"),
        (hostile_files.zipped({}), "a.zip", "is a zip, not a document", "Unpack it"),
        (
            hostile_files.zipped({"visio/document.xml": "x"}),
            "plan.vsdx",
            "document of Visio",
            "Save it as PDF",
        ),
        (hostile_files.zipped({"Index.zip": "x"}), "a.docx", "document of Pages", "Save it as PDF"),
        (
            hostile_files.zipped({"content.json": "[]", "metadata.json": "{}"}),
            "map.xmind",
            "document of XMind",
            "Save it as PDF",
        ),
        (
            hostile_files.zipped({"[Content_Types].xml": "<T/>", "visio/document.xml": "x"}),
            "draw.vsdx",
            "document of Visio",
            "Save it as PDF",
        ),
        (
            hostile_files.zipped({"Index/Document.iwa": "x"}),
            "talk.key",
            "document of Keynote",
            "Save it as PDF",
        ),
        (
            hostile_files.zipped({"a.txt": "x"}),
            "map.xmind",
            "not the document of XMind that its name says",
            "Open it",
        ),
        (epub(b"application/vnd.oasis.opendocument.graphics"), "a.odg", "not read here", "PDF"),
        (hostile_files.ole({"VisioDocument": b"x"}), "a.vsd", "old office", "Save it as .docx"),
        (hostile_files.ole({"EncryptedSummary": b"x"}), "a.ppt", "needs a password", "Remove"),
        (hostile_files.ole({"Anything": b"x"}), "a.doc", "is damaged", "save it anew"),
        (hostile_files.encrypted_doc(), "a.doc", "needs a password", "Remove the password"),
        (hostile_files.ole({"EncryptedPackage": b"x"}), "a.docx", "needs a password", "Remove"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a.doc", "is damaged", "save it anew"),
        (DOCX[: len(DOCX) // 2], "a.docx", "is damaged", "save it anew"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_what_to_do(
    sniff, data: bytes, name: str, reason: str, advice: str
) -> None:
    sentence = refusal(sniff, data, name)
    assert f"“{name}”" in sentence
    assert reason in sentence
    assert advice in sentence


@pytest.mark.parametrize(
    "data",
    [
        b"<!-- x -->\n" * 4000 + b"text",
        b"a" * 60_000 + b"\n\nb",
        b"<!--" * 15_000,
        b"<?xml " * 10_000,
        b"a:\n " * 15_000 + b"\n\nb",
    ],
    ids=["comments", "one-word", "open", "declared", "folded"],
)
def test_no_text_takes_long_to_be_told(sniff, data: bytes) -> None:
    started = time.thread_time()
    assert sniff(data, "a.txt") == "txt"
    assert time.thread_time() - started < 0.5


@pytest.mark.parametrize(
    ("part", "content_type", "kind"),
    [
        ("ppt/presentation.xml", f"{MAIN}presentationml.presentation.main+xml", "pptx"),
        ("ppt/presentation.xml", f"{MAIN}presentationml.slideshow.main+xml", "pptx"),
        ("xl/workbook.xml", f"{MAIN}spreadsheetml.sheet.main+xml", "xlsx"),
        ("word/document2.xml", f"{MAIN}wordprocessingml.document.main+xml", "docx"),
        ("word/document.xml", f"{MAIN}wordprocessingml.template.main+xml", "docx"),
        ("word/document.xml", "application/vnd.ms-word.document.macroEnabled.main+xml", "docx"),
        ("xl/workbook.xml", "application/vnd.ms-excel.sheet.macroEnabled.main+xml", "xlsx"),
    ],
)
def test_office_kinds_go_by_the_declared_main_part(
    sniff, part: str, content_type: str, kind: str
) -> None:
    assert sniff(hostile_files.package(part, content_type, {part: "<x/>"}), "x.bin") == kind


def test_a_binary_workbook_is_to_be_saved_as_xlsx(sniff) -> None:
    kind = "application/vnd.ms-excel.sheet.binary.macroEnabled.main"
    data = hostile_files.package("xl/workbook.bin", kind, {"xl/workbook.bin": b"x"})
    assert "Save it as .xlsx" in refusal(sniff, data, "a.xlsb")


def test_a_zip_member_with_a_password_is_told(sniff) -> None:
    data = bytearray(hostile_files.zipped({"a.txt": "x"}))
    start = data.rindex(b"PK\x01\x02")
    struct.pack_into("<H", data, start + 8, 1)
    assert "needs a password" in refusal(sniff, bytes(data), "a.docx")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
def test_entities_are_refused_in_every_encoding_and_place(sniff, encoding: str) -> None:
    body = "<?xml version='1.0'?>" + " " * 100_000 + "<!DOCTYPE w [<!ENTITY a 'b'>]><w/>"
    kind = f"{MAIN}wordprocessingml.document.main+xml"
    parts = {"word/document.xml": "<w/>", "customXml/item1.xml": body.encode(encoding)}
    sentence = refusal(sniff, hostile_files.package("word/document.xml", kind, parts), "a.docx")
    assert "declares entities" in sentence


def test_a_mark_across_two_pieces_is_seen(sniff, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sniff_zip, "PIECE", 64)
    kind = f"{MAIN}wordprocessingml.document.main+xml"
    for shift in range(16):
        body = " " * (48 + shift) + "<!DOCTYPE a><a/>"
        data = hostile_files.package("word/document.xml", kind, {"word/document.xml": body})
        assert "declares entities" in refusal(sniff, data, f"{shift}.docx")


def test_a_book_may_name_its_document_type_but_not_entities(sniff) -> None:
    doctype = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "xhtml11.dtd"><html/>'
    assert sniff(epub(chapter=doctype), "a.epub") == "epub"
    assert "entities" in refusal(sniff, epub(chapter="<!DOCTYPE a [<!ENTITY b 'c'>]>"), "a.epub")


def test_sizes_are_counted_while_unpacking(sniff) -> None:
    sentence = refusal(sniff, hostile_files.docx_bomb(b"<w:p>lorem ipsum</w:p>", 400), "a.docx")
    assert "would unpack to" in sentence
    # A directory that claims less is found out by its checksum, before it is unpacked.
    lying = hostile_files.docx_bomb(b"<w:p>lorem ipsum</w:p>", 400, claimed=1000)
    assert "is damaged" in refusal(sniff, lying, "a.docx")


def test_too_many_members_are_refused_before_they_are_read(sniff) -> None:
    kind = f"{MAIN}wordprocessingml.document.main+xml"
    members = {f"word/media/{n}": b"" for n in range(sniff_zip.MAX_MEMBERS)}
    sentence = refusal(sniff, hostile_files.package("word/document.xml", kind, members), "a.docx")
    assert "5002 parts" in sentence


def test_an_even_text_that_packs_well_is_no_bomb(sniff) -> None:
    text = hostile_files.paragraph("the same words again and again") * 60_000
    data = hostile_files.docx(text)
    assert len(text) / len(data) > sniff_zip.MAX_RATIO
    assert sniff(data, "a.docx") == "docx"


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_member_is_damage_however_it_is_packed(sniff, method: int) -> None:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as bundle:
        bundle.writestr("mimetype", "application/epub+zip")
        bundle.writestr("a.xhtml", "<html>right</html>" * 99, compress_type=method)
    data = bytearray(out.getvalue())
    begin = data.index(b"a.xhtml") + len("a.xhtml") + 12
    data[begin : begin + 20] = bytes(byte ^ 0xFF for byte in data[begin : begin + 20])
    assert "is damaged" in refusal(sniff, bytes(data), "a.epub")


def test_a_broken_checksum_is_damage(sniff) -> None:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as bundle:
        bundle.writestr("mimetype", "application/epub+zip")
        bundle.writestr("a.xhtml", "<html>right</html>")
    data = out.getvalue().replace(b"right", b"wrong", 1)
    assert "is damaged" in refusal(sniff, data, "a.epub")


def test_a_large_ole_directory_is_followed_and_a_cyclic_one_ends(sniff) -> None:
    streams = {"A": b"", "B": b"", "WordDocument": b"\xec\xa5" + bytes(30)}
    assert sniff(hostile_files.ole(streams), "a.doc") == "doc"
    cyclic = bytearray(hostile_files.ole(streams))
    struct.pack_into("<I", cyclic, 512 + 4, 1)  # The directory's second sector is its first.
    assert sniff(bytes(cyclic), "a.doc") == "doc"
