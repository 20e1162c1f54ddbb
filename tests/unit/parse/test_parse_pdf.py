"""PDF: text by page, bookmarks where they stand, and no page that is silently empty."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

import pikepdf
import pytest

from rag.core.documents import Page, ParsedDocument
from rag.core.errors import DocumentError
from rag.core.ocr.scans import PageWords, ScannedWord
from rag.stages.parse import parse_document, pdf
from rag.stages.parse.pdf import place_bookmarks
from tests import hostile_files, scans

SENTENCE = "A pump moves water from a low place to a high place."


def parsed(folder: Path, data: bytes, name: str = "a.pdf") -> ParsedDocument:
    path = folder / "upload"
    path.write_bytes(data)
    return parse_document(path, name)


def placed(marks: list[tuple[str, int, int]], *texts: str) -> list[tuple[str, int]]:
    pages, position = [], 0
    for number, text in enumerate(texts, start=1):
        pages.append(Page(number, str(number), position, position + len(text)))
        position += len(text) + 1
    joined = "\f".join(texts)
    return [(joined[b.start : b.end], b.level) for b in place_bookmarks(marks, pages, joined)]


def test_a_bookmark_is_a_heading_where_its_title_stands() -> None:
    found = placed(
        [("Pump", 1, 0), ("Valve", 2, 1), ("Gone", 1, 0), ("Off", 1, 7)],
        "About the Pump and more\nPump\ntext",
        "3.2 Valve\nThe Valve is blue.",
    )
    assert found == [("Pump", 1), ("3.2 Valve", 2)]


@pytest.mark.parametrize(
    ("title", "line"),
    [
        ("水 泵", "水泵"),
        ("水泵", "水 泵"),
        ("用途", "⽤途"),
        ("THE PUMP", "The  Pump"),
        ("ﬁlter", "filter"),
        ("HX-400", "ＨＸ－４００"),
        ("A long title", "A long\ntitle"),
        ("Pump", "Chapter 3: Pump"),
        ("总则", "第一章 总则"),
        ("Pump", "IV. Pump"),
    ],
)
def test_white_space_width_and_forms_of_letters_make_no_difference(title: str, line: str) -> None:
    assert placed([(title, 1, 0)], f"text before\n{line}\ntext after") == [(line, 1)]


def test_equal_titles_take_their_places_in_turn() -> None:
    assert placed(
        [("Foo", 1, 0), ("Bar", 1, 0), ("Foo", 1, 0)], "1 Foo\nx\n2 Bar\ny\n3 Foo\nz"
    ) == [
        ("1 Foo", 1),
        ("2 Bar", 1),
        ("3 Foo", 1),
    ]


def test_numbers_deepen_levels_and_unmarked_chapters_are_added() -> None:
    found = placed(
        [("1.1 小节", 1, 0), ("2.1 小节", 1, 1)],
        "第一章 水\n1.1 小节\n文",
        "第二章 电\n2.1 小节\n文",
    )
    assert found == [("第一章 水", 1), ("1.1 小节", 2), ("第二章 电", 1), ("2.1 小节", 2)]


def test_without_bookmarks_numbered_lines_are_headings() -> None:
    assert placed([], "第一章 水\n1.1 小节\n文", "1.2 再\n文") == [
        ("第一章 水", 1),
        ("1.1 小节", 2),
        ("1.2 再", 2),
    ]


def test_pages_are_exact_spans_joined_by_form_feeds(tmp_path: Path) -> None:
    document = parsed(tmp_path, hostile_files.text_pdf([["one"], ["two", "more"], ["three"]]))
    assert document.text == "one\ftwo\nmore\fthree"
    assert [document.text[page.start : page.end] for page in document.pages] == (
        document.text.split("\f")
    )
    assert [page.label for page in document.pages] == ["1", "2", "3"]


def test_labels_and_title_are_the_document_s_own(tmp_path: Path) -> None:
    catalog = b"/PageLabels << /Nums [0 << /S /r >> 2 << /S /D /P (A-) >>] >>"
    path = tmp_path / "a.pdf"
    path.write_bytes(hostile_files.text_pdf([["x"], ["y"], ["z"]], catalog=catalog))
    with pikepdf.open(path, allow_overwriting_input=True) as document:
        document.docinfo["/Title"] = "水泵 manual"
        document.save(path)
    document = parse_document(path, "a.pdf")
    assert [page.label for page in document.pages] == ["i", "ii", "A-1"]
    assert document.title == "水泵 manual"


def mixed(tmp_path: Path) -> bytes:
    """Return a page of text, a scan, a blank page and a page of text."""
    path = tmp_path / "mixed.pdf"
    with pikepdf.new() as out:
        for data in (
            hostile_files.text_pdf([[SENTENCE]]),
            hostile_files.scan_page(),
            hostile_files.text_pdf([[""]]),
            hostile_files.text_pdf([[SENTENCE]]),
        ):
            part = tmp_path / "part.pdf"
            part.write_bytes(data)
            with pikepdf.open(part) as source:
                out.pages.extend(source.pages)
                out.save(path)
    return path.read_bytes()


def test_a_scanned_page_among_others_is_flagged_and_a_blank_one_is_not(tmp_path: Path) -> None:
    document = parsed(tmp_path, mixed(tmp_path))
    assert [page.has_text_layer for page in document.pages] == [True, False, True, True]
    assert document.text == f"{SENTENCE}\f\f\f{SENTENCE}"
    assert [*map(str, document.warnings)] == [
        "No text layer on page 2: nothing of it is searchable.",
        "Turn on text recognition (OCR) in the settings of its store and index it again; the workers need the package: pip install rapidocr==3.10.0.",
    ]


def test_a_document_of_scans_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="has no text layer: its pages are images") as caught:
        parsed(tmp_path, hostile_files.scan_page())
    assert "OCR" in str(caught.value)


def test_text_in_an_unreadable_font_is_not_indexed(tmp_path: Path) -> None:
    octal = "".join(f"\\{code:o}" for code in "£±Ä¿Â¼µÚÒ»ÕÂ×ÜÔòÔò¸Ç¹æ¶¨Á¦".encode("latin-1"))
    readable = hostile_files.text_pdf([[octal], [SENTENCE]])
    data = readable.replace(b"/Helvetica", b"/Helvetica /Encoding /WinAnsiEncoding")
    document = parsed(tmp_path, data)
    assert document.text == f"\f{SENTENCE}"
    assert "font's characters cannot be read on page 1" in str(document.warnings[0])
    only = hostile_files.text_pdf([[octal]]).replace(
        b"/Helvetica", b"/Helvetica /Encoding /WinAnsiEncoding"
    )
    with pytest.raises(DocumentError, match="fonts of “a.pdf” cannot be read"):
        parsed(tmp_path, only)


def misnamed_pdf(shift: int, base: int = 0) -> bytes:
    """Return a page whose font names each small letter as one that is ``shift`` further on."""
    named = "".join(f"<{97 + n:02x}> <{base or 97 + (n + shift) % 26:04x}>\n" for n in range(26))
    cmap = (
        "/CIDInit /ProcSet findresource begin begincmap\n1 begincodespacerange <00> <ff> "
        f"endcodespacerange\n26 beginbfchar\n{named}endbfchar endcmap end"
    )
    text = "".join(
        f"({SENTENCE.lower()} the valve is closed by hand) Tj 0 -14 Td " for _ in range(8)
    )
    page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R /Resources "
    return hostile_files.pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>",
            f"{page} << /Font << /F 3 0 R >> >> >>".encode(),
            hostile_files.stream(f"BT /F 10 Tf 50 800 Td {text}ET".encode()),
            hostile_files.stream(cmap.encode()),
        ]
    )


def test_a_font_that_names_other_letters_than_it_shows_is_told(tmp_path: Path) -> None:
    document = parsed(tmp_path, misnamed_pdf(0))
    assert "a pump moves water" in document.text and not document.warnings
    document = parsed(tmp_path, misnamed_pdf(13))
    assert "n chzc zbirf jngre" in document.text
    (notice,) = document.warnings
    assert str(notice).startswith("Its letters are spread as in no language")
    with pytest.raises(DocumentError, match="fonts of “a.pdf” cannot be read"):
        parsed(tmp_path, misnamed_pdf(0, base=0xE001))


def test_words_that_were_hardly_recognized_are_told(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_bytes(scans.scan_pdf([scans.paper([])]))
    words = [
        ScannedWord(text, 50, 40 + 20 * n, 200, 52 + 20 * n, confidence)
        for n, (text, confidence) in enumerate([("Policy", 0.97), ("Blandeysic", 0.8), ("a", 0.5)])
    ]
    page = PageWords(1, 595, 842, words=tuple(words))
    document = parse_document(path, "a.pdf", recognized={1: page})
    assert "Blandeysic" in document.text
    told = [str(notice) for notice in document.warnings if str(notice).startswith("Words of")]
    assert told == [
        "Words of the scan that are hard to read: Blandeysic. Compare them with the picture."
    ]


def test_what_is_filled_into_a_form_is_text(tmp_path: Path) -> None:
    data = hostile_files.text_pdf([[SENTENCE]])
    path = tmp_path / "form.pdf"
    path.write_bytes(data)
    with pikepdf.open(path, allow_overwriting_input=True) as document:
        font = document.pages[0].obj.Resources.Font
        look = document.make_stream(
            b"/Tx BMC BT /F 12 Tf 2 5 Td (filled in by hand) Tj ET EMC",
            Type=pikepdf.Name.XObject,
            Subtype=pikepdf.Name.Form,
            BBox=[0, 0, 200, 20],
            Resources={"/Font": font},
        )
        field = document.make_indirect(
            pikepdf.Dictionary(
                Type=pikepdf.Name.Annot,
                Subtype=pikepdf.Name.Widget,
                FT=pikepdf.Name.Tx,
                T="name",
                V="filled in by hand",
                Rect=[72, 500, 272, 520],
                F=4,
                AP={"/N": look},
            )
        )
        document.pages[0].obj.Annots = pikepdf.Array([field])
        document.Root.AcroForm = pikepdf.Dictionary(Fields=[field], DR={"/Font": font})
        document.save(path)
    assert "filled in by hand" in parse_document(path, "form.pdf").text


@pytest.mark.parametrize(("user", "is_open"), [("secret", False), ("", True)])
def test_only_a_user_password_locks(tmp_path: Path, user: str, is_open: bool) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(hostile_files.text_pdf([[SENTENCE]]))
    with pikepdf.open(path, allow_overwriting_input=True) as document:
        document.save(path, encryption=pikepdf.Encryption(owner="owner", user=user))
    if is_open:
        assert parse_document(path, "a.pdf").text == SENTENCE
        return
    with pytest.raises(DocumentError, match="“a.pdf” needs a password. Remove the password"):
        parse_document(path, "a.pdf")


def test_a_damaged_file_that_is_locked_needs_its_password(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(hostile_files.text_pdf([[SENTENCE]]))
    with pikepdf.open(path, allow_overwriting_input=True) as document:
        document.save(path, encryption=pikepdf.Encryption(owner="owner", user="secret"))
    # pdfium no longer finds what the file is; qpdf does, and asks.
    path.write_bytes(path.read_bytes().replace(b"startxref", b"startxxxx"))
    with pytest.raises(DocumentError, match="“a.pdf” (needs a password|is damaged)"):
        parse_document(path, "a.pdf")
    path.write_bytes(b"junk junk\n" * 120 + path.read_bytes())
    with pytest.raises(DocumentError, match="“a.pdf” needs a password"):
        parse_document(path, "a.pdf")


def test_a_page_that_pdfium_cannot_read_costs_that_page_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = pdf.pdfium.PdfPage.get_textpage

    def fail_once(page: pdf.pdfium.PdfPage) -> pdf.pdfium.PdfTextPage:
        monkeypatch.setattr(pdf.pdfium.PdfPage, "get_textpage", read)
        raise pdf.pdfium.PdfiumError("Failed to load text page.")

    monkeypatch.setattr(pdf.pdfium.PdfPage, "get_textpage", fail_once)
    document = parsed(tmp_path, hostile_files.text_pdf([["gone"], [SENTENCE]]))
    assert document.text == f"\f{SENTENCE}"
    assert [*map(str, document.warnings)] == ["Damage on page 1: nothing of it is searchable."]


def test_what_is_attached_to_a_document_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(hostile_files.text_pdf([[SENTENCE]]))
    with pikepdf.open(path, allow_overwriting_input=True) as document:
        document.attachments["data.csv"] = b"a,b"
        document.save(path)
    document = parse_document(path, "a.pdf")
    assert document.text == SENTENCE
    assert "Attachments are not read" in str(document.warnings[0])


def test_a_soft_hyphen_that_is_drawn_is_a_hyphen(tmp_path: Path) -> None:
    data = hostile_files.text_pdf([["a well\\255known pump, part HX\\255400"]]).replace(
        b"/Helvetica", b"/Helvetica /Encoding /WinAnsiEncoding"
    )
    assert parsed(tmp_path, data).text == "a well-known pump, part HX-400"


def test_many_bookmarks_on_long_pages_are_placed_quickly() -> None:
    page = "a pump " * 3000
    started = time.thread_time()
    found = placed([("pump", 1, n % 2) for n in range(60)], page, page)
    assert len(found) == 60
    assert time.thread_time() - started < 2


def test_junk_in_front_is_repaired_with_a_word(tmp_path: Path) -> None:
    document = parsed(tmp_path, b"junk junk\n" * 120 + hostile_files.text_pdf([[SENTENCE]]))
    assert document.text == SENTENCE
    assert [*map(str, document.warnings)] == [
        "The file was damaged; what could be repaired is kept."
    ]


def test_counts_may_lie_and_cycles_end(tmp_path: Path) -> None:
    lying = parsed(tmp_path, hostile_files.text_pdf([[SENTENCE]], count=2_000_000_000))
    assert (lying.text, len(lying.pages)) == (SENTENCE, 1)
    cyclic = parsed(tmp_path, hostile_files.cyclic_bookmarks())
    assert [cyclic.text[b.start : b.end] for b in cyclic.blocks] == ["Pump"]
    with pytest.raises(DocumentError, match="is damaged"):
        parsed(tmp_path, hostile_files.cyclic_pages())


def test_pages_beyond_the_cap_are_refused_and_characters_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = hostile_files.text_pdf([[SENTENCE]] * 5)
    monkeypatch.setattr(pdf, "MAX_CHARS", 60)
    document = parsed(tmp_path, data)
    assert len(document.pages) == 2
    assert [*map(str, document.warnings)] == ["Only the first 2 of 5 pages are kept."]
    monkeypatch.setattr(pdf, "MAX_PAGES", 4)
    with pytest.raises(DocumentError, match=r"has 5 pages\. Split it into parts of at most 4"):
        parsed(tmp_path, data)


def cut_with_tail(share: float) -> bytes:
    """Return a document without its middle: its end still says where its beginning was."""
    whole = hostile_files.text_pdf([[SENTENCE]] * 12)
    return whole[: int(share * len(whole))] + whole[-900:]


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.2, 0.3])
def test_what_is_cut_in_its_first_third_is_damaged_not_empty(tmp_path: Path, share: float) -> None:
    whole = hostile_files.text_pdf([[SENTENCE]] * 12)
    for data in (whole[: int(share * len(whole))], cut_with_tail(share)):
        try:
            # pdfium finds whole pages in what is left, but never an empty document.
            assert SENTENCE in parsed(tmp_path, data).text
        except DocumentError as error:
            assert str(error) == "“a.pdf” is damaged. Open it, save it anew and upload that."


def test_noise_in_the_only_text_is_damage_not_emptiness(tmp_path: Path) -> None:
    packed = zlib.compress(f"BT /F 12 Tf 72 700 Td ({SENTENCE}) Tj ET".encode())
    n_refused = 0
    for at in range(len(packed)):
        noisy = packed[:at] + bytes([packed[at] ^ 0xFF]) + packed[at + 1 :]
        try:
            zlib.decompress(noisy)
        except zlib.error as error:
            if "incorrect data check" in str(error):
                continue
        try:
            parsed(
                tmp_path,
                hostile_files.one_page(hostile_files.stream(noisy, b"/Filter /FlateDecode")),
            )
        except DocumentError as error:
            assert str(error).startswith("“a.pdf” is damaged")
            n_refused += 1
    assert n_refused >= 5


@pytest.mark.parametrize(
    "kids",
    [b"2 0 R", b"", b"null", b"99 0 R", b"1 0 R"],
    ids=["self", "none", "null", "gone", "root"],
)
def test_a_page_tree_without_a_page_is_damaged(tmp_path: Path, kids: bytes) -> None:
    for count in (0, 1, 7):
        data = hostile_files.one_page(hostile_files.stream(b""), kids=kids, count=count)
        with pytest.raises(DocumentError, match="is damaged"):
            parsed(tmp_path, data)


def test_a_catalogue_that_is_its_own_page_tree_is_damaged(tmp_path: Path) -> None:
    data = hostile_files.text_pdf([[SENTENCE]]).replace(b"/Pages 2 0 R", b"/Pages 1 0 R", 1)
    with pytest.raises(DocumentError, match="is damaged"):
        parsed(tmp_path, data)


def test_pages_that_are_blank_are_nobody_s_damage(tmp_path: Path) -> None:
    for data in (
        hostile_files.text_pdf([[""], [""]]),
        hostile_files.one_page(hostile_files.stream(b"")),
    ):
        with pytest.raises(DocumentError, match="“a.pdf” holds no text"):
            parsed(tmp_path, data)
