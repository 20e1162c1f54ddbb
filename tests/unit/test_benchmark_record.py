"""Rows of docs/benchmarks.md: each section has tables, and a run adds a row to the last."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import record
from benchmarks.record import Figure, Report, add_row

NAMES, GOALS = ["date", "speed"], ["goal", "≥ 3"]


def add(page: str, section: str = "search", names: list[str] = NAMES, row: str = "1") -> str:
    return add_row(page, section, names, GOALS, ["2026-01-01", row])


def test_a_new_section_gets_a_table_with_its_goals() -> None:
    lines = add("# Benchmarks\n\nWords.\n").splitlines()
    assert lines == [
        "# Benchmarks",
        "",
        "Words.",
        "",
        "## search",
        "",
        "| date | speed |",
        "| --- | --- |",
        "| goal | ≥ 3 |",
        "| 2026-01-01 | 1 |",
    ]


def test_a_second_run_adds_a_row_below_the_first() -> None:
    page = add(add("# Benchmarks\n"), row="2")
    assert page.count("## search") == page.count("| goal |") == 1
    assert page.splitlines()[-2:] == ["| 2026-01-01 | 1 |", "| 2026-01-01 | 2 |"]


def test_sections_do_not_mix() -> None:
    page = add(add(add("# Benchmarks\n", "ingest"), "search"), "ingest", row="2").splitlines()
    assert page.index("| 2026-01-01 | 2 |") < page.index("## search")
    assert page[page.index("## search") - 1] == ""


def test_other_figures_start_another_table_in_the_section() -> None:
    page = add(add("# Benchmarks\n"), names=["date", "size"], row="2")
    page = add(page, names=["date", "size"], row="3")
    assert page.count("## search") == 1
    assert page.count("| goal |") == 2
    assert page.splitlines()[-2:] == ["| 2026-01-01 | 2 |", "| 2026-01-01 | 3 |"]


def test_an_older_table_is_not_continued() -> None:
    page = add(add("# Benchmarks\n"), names=["date", "size"], row="2")
    assert add(page, row="3").count("| goal |") == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2369.4, "2369"),
        (1.0, "1"),
        (0.9956, "0.996"),
        (3.25, "3.2"),
        (442.0, "442"),
        (-0.01, "-0.010"),
    ],
)
def test_a_figure_is_as_exact_as_its_size_deserves(value: float, text: str) -> None:
    assert Figure("x", value, "", True).text == text


def test_a_report_prints_goals_and_keeps_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "benchmarks.md"
    monkeypatch.setattr(record, "PAGE", page)
    report = Report("search")
    report.add("speed", 5.0, least=3)
    report.add("time", 5.0, most=3)
    report.add("detail", 7.0, is_kept=False)
    report.save()
    told = capsys.readouterr().out
    assert [line.split()[-1] for line in told.splitlines()[:2]] == ["reached", "MISSED"]
    assert "detail" in told
    header, _, goals, row = page.read_text("utf-8").splitlines()[-4:]
    assert header == "| date | commit | machine | speed | time |"
    assert goals == "| goal |  |  | ≥ 3 | ≤ 3 |"
    assert row.endswith("| 5 | 5 |")
    assert "cores of" in row
