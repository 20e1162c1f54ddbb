"""Pages of PDF: running heads and feet, what goes on over a page or column, notes, Han letters."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.core.documents import ChunkRule, ParsedDocument
from rag.stages.chunking.chunk import chunk_document
from rag.stages.citing.locate import locate_quote
from rag.stages.parse import parse_document, pdf
from rag.stages.text.normalize import normalize_quote
from rag.stages.text.sentences import sentence_spans
from tests.pdf_pages import Drawn, Text, cells, drawn_pdf, lines
from tests.unit.cutting import unigram
from tests.unit.parse.test_parse_samples import SHARED
from tests.unit.parse.test_pdf_tables import tables

CASES = SHARED / "cases"
with_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the cases are not at hand")
PROSE = [
    "The pump moves water from the low tank to the high one at every hour of the day and it",
    "stops when the tank is full. The filter of the pump is changed by the foreman who signs the",
    "sheet of the week before the valve is opened again. The seal of the valve is replaced when",
]


def parsed(folder: Path, *pages: list[Drawn]) -> ParsedDocument:
    path = folder / "upload"
    path.write_bytes(drawn_pdf(pages))
    return parse_document(path, "a.pdf")


def body(number: int, *, top: float = 760) -> list[Drawn]:
    """Return lines that differ from page to page and break off within a sentence."""
    own = [
        f"Part {'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[number]} begins here and says what is done with it."
    ]
    return lines([*own, *PROSE], top=top)


def test_heads_and_feet_that_run_are_no_text_but_lie_with_their_page(tmp_path: Path) -> None:
    pages = [
        [
            Text(60, 800, "ACME CORP CONFIDENTIAL", 8),
            Text(400, 800, "Operating Manual", 8),
            *body(n),
            Text(280, 30, f"Page {n + 1} of 6", 8),
        ]
        for n in range(6)
    ]
    document = parsed(tmp_path, *pages)
    assert "ACME" not in document.text and "of 6" not in document.text
    assert [page.margin for page in document.pages] == [
        f"ACME CORP CONFIDENTIAL Operating Manual\nPage {n} of 6" for n in range(1, 7)
    ]
    assert document.text.count("stops when the tank is full") == 6


@pytest.mark.parametrize("label", ["{n}", "- {n} -", "Page {n}", "{r}"])
def test_numbers_of_pages_may_be_all_that_runs(tmp_path: Path, label: str) -> None:
    romans = ["i", "ii", "iii", "iv", "v"]
    pages = [[*body(n), Text(290, 30, label.format(n=n + 1, r=romans[n]))] for n in range(5)]
    document = parsed(tmp_path, *pages)
    assert [page.margin for page in document.pages] == [
        label.format(n=n + 1, r=romans[n]) for n in range(5)
    ]


def test_heads_of_left_and_right_pages_and_of_chapters_run(tmp_path: Path) -> None:
    pages = []
    for n in range(12):
        chapter = "Pumps and what they move" if n < 6 else "Valves"
        head = Text(60, 800, "The Book of Water") if n % 2 else Text(300, 800, chapter)
        pages.append([head, *body(n), Text(60 if n % 2 else 500, 30, str(n + 41))])
    document = parsed(tmp_path, *pages)
    assert "Book of Water" not in document.text and "Pumps and what" not in document.text
    assert document.pages[3].margin == "The Book of Water\n44"


def test_rows_that_are_alike_but_for_their_numbers_do_not_run(tmp_path: Path) -> None:
    rows = [[f"PN-{3 * n}", "Bracket", f"{n * 7}.50"] for n in range(60)]
    pages = [cells(rows[20 * n : 20 * n + 20], (60, 200, 400), 780) for n in range(3)]
    assert tables(parsed(tmp_path, *pages)) == [rows]


def test_a_header_that_is_repeated_on_each_page_is_a_header(tmp_path: Path) -> None:
    head = ["Part", "Name", "Price"]
    rows = [[f"PN-{3 * n}", "Bracket", f"{n * 7}.50"] for n in range(60)]
    pages = [cells([head, *rows[20 * n : 20 * n + 20]], (60, 200, 400), 780) for n in range(3)]
    assert tables(parsed(tmp_path, *pages)) == [[head, *rows]]


def test_pages_that_say_the_same_keep_their_text(tmp_path: Path) -> None:
    document = parsed(tmp_path, *[lines(["DRAFT of the pump"]) for _ in range(4)])
    assert document.text == "\f".join(["DRAFT of the pump"] * 4)


def test_a_watermark_runs(tmp_path: Path) -> None:
    pages = [[*body(n), Text(150, 300, "INTERNAL USE ONLY", 40, angle=45)] for n in range(4)]
    document = parsed(tmp_path, *pages)
    assert "INTERNAL" not in document.text
    assert document.pages[2].margin == "INTERNAL USE ONLY"


@pytest.mark.parametrize(
    "first", ["it drips for a day.", "ACME has sent the new one.", "40 days are over."]
)
def test_a_sentence_over_the_page_is_one_and_its_quote_holds(tmp_path: Path, first: str) -> None:
    def page(n: int, more: list[str]) -> list[Drawn]:
        return [
            Text(60, 800, "ACME CORP CONFIDENTIAL", 8),
            *lines([*more, *PROSE], top=770),
            Text(280, 30, f"Page {n}", 8),
        ]

    document = parsed(tmp_path, page(1, []), page(2, [first]), page(3, [first]))
    sentence = f"The seal of the valve is replaced when {first}"
    found = [" ".join(document.text[a:b].split()) for a, b in sentence_spans(document.text)]
    assert found.count(sentence) == 2
    chunks = [*chunk_document(document, ChunkRule(200, 0), unigram())]
    quote = normalize_quote(sentence).text
    held = [
        chunk
        for chunk in chunks
        if (place := locate_quote(quote, normalize_quote(chunk.text), is_exact=True))
        and place.distance == 0
    ]
    assert [(chunk.page_first, chunk.page_last) for chunk in held][:1] == [(1, 2)]


def test_a_word_that_the_page_breaks_is_whole_on_the_first(tmp_path: Path) -> None:
    document = parsed(
        tmp_path,
        lines([*PROSE, "the pump has stopped and the foreman has signed the main-"]),
        lines(["tenance sheet of the week. Then it is started.", *PROSE]),
    )
    first, second = (document.text[page.start : page.end] for page in document.pages)
    assert first.endswith("has signed the maintenance")
    assert second.startswith("sheet of the week. Then it is started.")


def test_a_hyphen_of_a_name_stays_at_the_end_of_a_page(tmp_path: Path) -> None:
    document = parsed(
        tmp_path, lines([*PROSE, "of the pump HX-"]), lines(["400 is changed.", *PROSE])
    )
    assert "pump HX-\f400 is changed." in document.text


def test_notes_stand_before_the_sentence_that_they_would_part(tmp_path: Path) -> None:
    note = [
        Text(60, 60, "1 See the manual of 2026, in its third part, on seals.", 7.5),
        Text(60, 50, "2 Or the foreman's own sheet.", 7.5),
    ]
    document = parsed(tmp_path, [*lines(PROSE), *note], lines(["it drips for a day.", *PROSE[:1]]))
    first, second = (document.text[page.start : page.end] for page in document.pages)
    assert first.endswith("The seal of the valve is replaced when")
    assert first.index("2 Or the foreman") < first.index("The seal of the valve")
    assert second.startswith("it drips for a day.")


def test_marks_of_notes_and_powers_are_raised(tmp_path: Path) -> None:
    page = [
        Text(60, 700, "The area is 10"),
        Text(119.5, 704, "2", 6),
        Text(123.5, 700, "m wide and the pump"),
        Text(213.5, 704, "3", 6),
        Text(219, 700, "is new."),
    ]
    assert parsed(tmp_path, page).text == "The area is 10²m wide and the pump³ is new."


def test_a_paragraph_goes_on_in_the_next_column(tmp_path: Path) -> None:
    left = [
        "The pump moves water from the low",
        "tank to the high one every hour of",
        "the day until it is full again and",
    ] * 4
    right = [
        "then the valve is closed by hand and",
        "the sheet is signed by the foreman",
        "who has done it for years at least",
    ] * 4
    document = parsed(tmp_path, lines(left, x=50) + lines(right, x=310))
    assert "until it is full again and then the valve is closed" in document.text


def test_a_line_that_goes_on_with_a_number_is_no_title(tmp_path: Path) -> None:
    page = lines([*PROSE[:2], "24 cups stand on each of the boards.", "2 Cleaning"])
    text = parsed(tmp_path, page).text
    assert text.split("\n") == [
        f"{' '.join(PROSE[:2])} 24 cups stand on each of the boards.",
        "2 Cleaning",
    ]


def test_lines_are_joined_where_the_width_alone_breaks_them(tmp_path: Path) -> None:
    page = lines(
        ["Pump manual", *PROSE, "it drips.", "Short line", "Another one", "- an item", "- another"]
    )
    assert parsed(tmp_path, page).text.split("\n") == [
        "Pump manual",
        f"{' '.join(PROSE)} it drips.",
        "Short line",
        "Another one",
        "- an item",
        "- another",
    ]


def test_pages_behind_the_time_for_layouts_are_plain_and_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "LAYOUT_S", -1.0)
    document = parsed(tmp_path, body(0), body(1))
    assert document.text.count("stops when the tank is full") == 2
    assert [*map(str, document.warnings)] == [
        "The layout of page 1, 2 is too much to read: tables and running heads are plain text."
    ]


def test_numbered_headings_make_the_path(tmp_path: Path) -> None:
    def part(title: str, top: float) -> list[Drawn]:
        return [Text(60, top, title, 12), *lines([*PROSE, "it drips."], top=top - 24)]

    titles = ["6. Method", "6.1 Speed", "6.2 Correctness", "7. Evaluation"]
    drawn = [item for n, title in enumerate(titles) for item in part(title, 780 - 110 * n)]
    document = parsed(tmp_path, drawn)
    assert [
        (document.text[b.start : b.end], b.level) for b in document.blocks if b.kind == "heading"
    ] == [("6. Method", 1), ("6.1 Speed", 2), ("6.2 Correctness", 2), ("7. Evaluation", 1)]
    chunks = [*chunk_document(document, ChunkRule(500, 0), unigram())]
    assert chunks[-1].heading_path == ("7. Evaluation",)


@with_cases
def test_the_case_of_han_letters_that_are_set_apart() -> None:
    document = parse_document(CASES / "justified_zh.pdf", "justified_zh.pdf")
    assert document.text.startswith(
        "本公司董事会及全体董事保证本公告内容不存在任何虚假记载、误导性陈述或者重大遗漏，"
    )
    assert [(document.text[b.start : b.end], b.level) for b in document.blocks] == [
        ("第一章 总则", 1)
    ]


@with_cases
def test_the_case_of_running_heads() -> None:
    document = parse_document(CASES / "running.pdf", "running.pdf")
    assert "ACME" not in document.text and "of 6" not in document.text
    for number, page in enumerate(document.pages, start=1):
        assert page.margin.split("\n") == [
            "ACME CORP CONFIDENTIAL Operating Manual Revision 7",
            f"Page {number} of 6 ACME Corp, all rights reserved",
        ]
    folded = normalize_quote(document.text)
    for page, following in zip(document.pages, document.pages[1:], strict=False):
        end = " ".join(document.text[: page.end].split()[-9:])
        begin = " ".join(document.text[following.start :].split()[:9])
        place = locate_quote(normalize_quote(f"{end} {begin}").text, folded, is_exact=True)
        assert place is not None and place.distance == 0
