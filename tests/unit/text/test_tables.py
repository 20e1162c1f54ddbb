"""Tables of a text: their rows, their columns' names, and what names a row."""

from __future__ import annotations

import pytest

from rag.stages.text.tables import is_value, label_name, label_unit, names_label, read_tables


def test_rows_and_columns_of_each_table_are_read() -> None:
    text = "Before | it\n\n| A | B |\n|---|---|\n| a\\|x | 1 |\n\nBetween\n\n| C | D |\n| c |  |\n"
    first, second = read_tables(text)
    assert first.columns == ("A", "B")
    assert [row.cells for row in first.rows] == [("a|x", "1")]
    assert second.columns == ("C", "D")
    assert [row.cells for row in second.rows] == [("c", "")]
    row = second.rows[0]
    assert text[row.start : row.end] == "| c |  |"


def test_names_over_several_rows_are_joined() -> None:
    (table,) = read_tables(
        "| Region | 2023 | 2023 | 2024 |\n|  | Q1 | Q2 | Q1 |\n| East | 1 | 2 | 3 |"
    )
    assert table.columns == ("Region", "2023 Q1", "2023 Q2", "2024 Q1")
    assert [row.cells[0] for row in table.rows] == ["East"]


def test_a_table_that_goes_on_has_carried_names_and_keeps_its_first_row() -> None:
    (table,) = read_tables("| a | 1 |\n| b | 2 |", "| Name | Stock |")
    assert table.columns == ("Name", "Stock")
    assert (len(table.header), len(table.rows)) == (0, 2)
    (again,) = read_tables("| Name | Stock |\n| a | 1 |", "| Name | Stock |")
    assert (len(again.header), len(again.rows)) == (1, 1)


@pytest.mark.parametrize("text", ["", "| one |", "|", "||", "a | b", "| A | B |", "\n|x\ny|"])
def test_what_is_no_table_is_none(text: str) -> None:
    assert read_tables(text) == ()


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("1500", True),
        ("12.5 kg", True),
        ("¥3,999.00", True),
        ("-4%", True),
        ("2026-07-02", True),
        ("PN-1036", False),
        ("A100", False),
        ("Bracket type 36", False),
        ("总计", False),
        ("", False),
    ],
)
def test_amounts_and_dates_are_values(cell: str, expected: bool) -> None:
    assert is_value(cell) is expected


def test_units_are_read_from_labels() -> None:
    assert [label_unit(one) for one in ("功率(W)", "Price EUR", "单价/元", "Name")] == [
        "W",
        "EUR",
        "元",
        "",
    ]


@pytest.mark.parametrize(
    ("text", "label", "is_named"),
    [
        ("Bracket type 36 price", "Bracket type 36", True),
        ("Bracket type 36 price", "Bracket type 3", False),
        ("PN-1036 的库存", "Stock", True),
        ("PN-1036 的库存", "Price EUR", False),
        ("B200的功率", "功率(W)", True),
        ("B200的功率", "C200", False),
        ("", "Stock", False),
    ],
)
def test_a_text_names_a_row_or_column(text: str, label: str, is_named: bool) -> None:
    assert (names_label(text, label) > 0) is is_named


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("Price EUR", "Price"),
        ("Weight kg", "Weight"),
        ("Area km2", "Area"),
        ("Volume litres", "Volume"),
        ("Quantity pcs", "Quantity"),
        ("价格 USD", "价格"),
        ("重量(kg)", "重量"),
        ("Call back", "Call back"),
        ("Price paid", "Price paid"),
        ("Date due", "Date due"),
        ("Stock here", "Stock here"),
        ("价格 net", "价格 net"),
    ],
)
def test_a_last_word_is_a_unit_only_where_it_is_one(label: str, name: str) -> None:
    assert label_name(label) == name
