"""The isolated parser: hostile files are refused with a sentence, limits hold, nothing is left."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rag.core.documents import ParsedDocument
from rag.core.errors import DocumentError
from rag.providers.sandbox import parser as isolated_parser
from rag.providers.sandbox import process as limited_process
from rag.providers.sandbox.parser import SandboxedParser
from tests import hostile_files
from tests.unit.parse.test_parse_docx import level, number, numbering, style, styles, with_pages

MB = 1024**2
SENTENCE = "A pump moves water from a low place to a high place."
RECIPES = {name: (data, reason) for name, data, reason in hostile_files.recipes()}


@pytest.fixture
def parse(tmp_path: Path):
    def call(data: bytes, name: str, parser: SandboxedParser | None = None) -> ParsedDocument:
        path = tmp_path / "upload"
        path.write_bytes(data)
        return (parser or SandboxedParser()).parse(path, name)

    return call


@pytest.fixture(autouse=True)
def own_place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


def left_behind() -> list[Path]:
    return list(Path(tempfile.gettempdir()).iterdir())


@pytest.mark.parametrize("name", RECIPES)
def test_a_hostile_file_is_refused_with_its_sentence(parse, name: str) -> None:
    data, reason = RECIPES[name]
    started = time.monotonic()
    with pytest.raises(DocumentError) as caught:
        parse(data, name)
    assert reason in str(caught.value)
    assert f"“{name}”" in str(caught.value)
    assert caught.value.hint
    assert time.monotonic() - started < 20


def test_deep_nesting_is_flattened_or_refused_at_once(parse) -> None:
    started = time.monotonic()
    assert "innermost" in parse(hostile_files.nested_tables(300), "a.docx").text
    with pytest.raises(DocumentError, match=r"“a\.docx” is (too complex|damaged)"):
        parse(hostile_files.nested_tables(20_000), "a.docx")
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(("n_mb", "layers"), [(700, 1), (3000, 2)])
def test_a_pdf_bomb_dies_alone_and_is_told(parse, n_mb: int, layers: int) -> None:
    small = SandboxedParser(memory_bytes=600 * MB)
    with pytest.raises(DocumentError, match="too complex to be read within 600 MB of memory"):
        parse(hostile_files.flate_bomb(n_mb, layers), "bomb.pdf", small)
    assert parse(hostile_files.text_pdf([[SENTENCE]]), "next.pdf", small).text == SENTENCE


def test_the_time_limits_end_a_slow_file_and_all_it_started(
    parse, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = SandboxedParser(wall_s=0.01)
    with pytest.raises(DocumentError, match="Reading “a.txt” took longer than 0 seconds"):
        parse(b"text", "a.txt", wall)
    endless = b"<a " * 20_000_000
    with pytest.raises(DocumentError, match=r"Reading “a.html” took longer than 1 seconds\. Split"):
        parse(b"<html>" + b"<!--" * 3_000_000 + endless, "a.html", SandboxedParser(cpu_s=1))
    assert left_behind() == []


def test_nothing_is_left_and_the_parent_keeps_its_limits(parse) -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    parse(hostile_files.docx(hostile_files.paragraph("text")), "a.docx")
    with pytest.raises(DocumentError):
        parse(b"", "a.docx")
    assert left_behind() == []
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_what_a_killed_parent_left_is_swept(parse) -> None:
    place = Path(tempfile.gettempdir())
    for name in ("citable-parse-999999999-x", f"citable-parse-{os.getpid()}-y", "citable-other"):
        (place / name).mkdir()
        (place / name / "text").write_text("secret")
    limited_process._sweep.cache_clear()
    assert parse(b"words", "a.txt").text == "words"
    assert {path.name for path in left_behind()} == {
        f"citable-parse-{os.getpid()}-y",
        "citable-other",
    }


def test_many_threads_parse_at_once_and_get_their_own(tmp_path: Path) -> None:
    paths = []
    for number_ in range(12):
        path = tmp_path / f"{number_}.pdf"
        path.write_bytes(
            hostile_files.text_pdf([[f"This is document number {number_}, page one."]])
        )
        paths.append(path)
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda path: SandboxedParser().parse(path, path.name).text, paths))
    assert texts == [f"This is document number {n}, page one." for n in range(12)]
    assert left_behind() == []


@pytest.mark.parametrize(
    "name", ["a\0b.txt", "../../a.txt", "-x", "n" * 200_000, "a\ud800.txt", ""]
)
def test_any_name_may_be_given(parse, name: str) -> None:
    assert parse(b"words", name).text == "words"


def test_a_failure_of_the_parser_itself_is_told_and_logged(
    parse, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DocumentError, match="cannot be read: its parser failed"):
        SandboxedParser().parse(tmp_path / "missing", "a.txt")
    assert "FileNotFoundError" in caplog.text


def test_of_endless_complaints_only_the_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "complaint"
    with path.open("wb") as file:
        file.truncate(3 * 1024**3)
        file.seek(0, os.SEEK_END)
        file.write("水 MemoryError".encode()[1:])
    assert isolated_parser._tail(path).strip("\0") == "\ufffd\ufffd MemoryError"
    path.write_text("short")
    assert isolated_parser._tail(path) == "short"


def test_the_child_knows_no_django_and_little_of_the_environment(tmp_path: Path) -> None:
    code = "import rag.providers.sandbox.parse_child, sys; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=limited_process._ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(limited_process._ROOT)},
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"django", "psycopg", "xberg", "pypdfium2", "numpy", "chardet", "socket"}


def test_an_encoding_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_bytes("Höhe".encode("cp1252"))
    document = SandboxedParser().parse(path, "a.txt", encoding="cp1252")
    assert (document.text, document.encoding) == ("Höhe", "cp1252")


def test_a_small_file_takes_a_moment(parse) -> None:
    def best(data: bytes, name: str) -> float:
        times = []
        for _ in range(3):
            started = time.monotonic()
            parse(data, name)
            times.append(time.monotonic() - started)
        return min(times)

    # Generous: other work may share the machine.
    assert best(b"words", "a.txt") < 1
    assert best(hostile_files.docx(hostile_files.paragraph("words")), "a.docx") < 2


@pytest.mark.slow
def test_a_hundred_megabytes_of_text_pass(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    line = "水泵把水从低处送到高处，每小时循环十二次。\n".encode()
    path.write_bytes(line * (100 * MB // len(line)))
    document = SandboxedParser().parse(path, "big.txt")
    assert len(document.text.encode()) == path.stat().st_size
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    assert peak_mb < 1500


def test_word_numbers_pages_and_styles_reach_the_canonical_text(parse) -> None:
    chapters = level(0, "第%1章", "chineseCountingThousand", '<w:pStyle w:val="1"/>')
    articles = level(1, "第%2条", "chineseCountingThousand", '<w:lvlRestart w:val="0"/>')
    body = (
        hostile_files.paragraph("总则", "1")
        + hostile_files.paragraph("目的。", "", number(1, 1))
        + "<w:p><w:r><w:t>第一页的</w:t></w:r><w:r><w:lastRenderedPageBreak/><w:t>第二页。</w:t></w:r></w:p>"
        + hostile_files.paragraph("附则", "1")
        + hostile_files.paragraph("5*3*2 _x_ [l](u) | 1.", "", number(1, 1))
        + "<w:tbl><w:tr><w:tc>"
        + hostile_files.paragraph("甲|乙")
        + "</w:tc><w:tc>"
        + hostile_files.paragraph("丙")
        + "</w:tc></w:tr></w:tbl>"
        + hostile_files.paragraph("项", "", number(2))
    )
    parts = {
        "numbering": numbering(chapters + articles, level(0, "•", "bullet")),
        "styles": styles(style("1", "heading 1", '<w:numPr><w:numId w:val="1"/></w:numPr>')),
    }
    document = parse(hostile_files.docx(body, **parts), "a.docx")
    assert document.text == (
        "第一章 总则\n\n  第一条 目的。\n\n第一页的第二页。\n\n第二章 附则\n\n"
        "  第二条 5*3*2 _x_ [l](u) | 1.\n\n| 甲\\|乙 | 丙 |\n\n- 项"
    )
    kinds = [(block.kind, block.level) for block in document.blocks]
    assert kinds == [
        ("heading", 1),
        ("list", 0),
        ("paragraph", 0),
        ("heading", 1),
        ("list", 0),
        ("table", 0),
        ("list", 0),
    ]
    assert document.pages == ()


def test_a_page_break_splits_a_paragraph_and_moves_before_a_row(parse) -> None:
    mark = "<w:r><w:lastRenderedPageBreak/><w:t>b1</w:t></w:r>"
    row = "<w:tr><w:tc>{}</w:tc></w:tr>"
    body = (
        "<w:p><w:r><w:t>begins </w:t></w:r><w:r><w:lastRenderedPageBreak/><w:t>ends</w:t></w:r></w:p>"
        + "<w:tbl>"
        + row.format(hostile_files.paragraph("a1"))
        + row.format(f"<w:p>{mark}</w:p>")
        + "</w:tbl>"
    )
    document = parse(with_pages(body, 3), "a.docx")
    assert document.text == "begins \fends\n\n| a1 |\f| b1 |"
    assert [page.number for page in document.pages] == [1, 2, 3]


@pytest.mark.skipif(not Path("/usr/bin/soffice").exists(), reason="LibreOffice is not installed")
def test_libreoffice_reads_what_xberg_does_not(parse, tmp_path: Path) -> None:
    source = tmp_path / "a.docx"
    source.write_bytes(hostile_files.docx(hostile_files.paragraph(SENTENCE)))
    subprocess.run(
        [
            "soffice",
            f"-env:UserInstallation=file://{tmp_path}/p",
            "--headless",
            "--convert-to",
            "doc:MS Word 95",
            "--outdir",
            str(tmp_path),
            str(source),
        ],
        capture_output=True,
        timeout=60,
        check=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    made = tmp_path / "a.doc"
    if made.exists():
        assert SENTENCE in parse(made.read_bytes(), "a.doc").text
