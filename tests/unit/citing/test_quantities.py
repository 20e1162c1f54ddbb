"""Quantities of a text: one form for numbers, units and dates of both languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.citing.quantities import read_figures


def told(text: str) -> list[tuple[float, str]]:
    return [(float(one.raw), one.dimension) for one in read_figures(text).quantities]


SAME = [
    ("two hours", "120 minutes"),
    ("两小时", "120 min"),
    ("三百二十公里", "320 km"),
    ("1,234.5 kg", "1234.5 kg"),
    ("百分之五", "5 %"),
    ("１２．５％", "12.5 percent"),
    ("3.5万元", "35,000 yuan"),
    ("$5 million", "$5,000,000"),
    ("£30m", "£30,000,000"),
    ("2024年3月5日", "March 5, 2024"),
    ("5 March 2024", "2024-03-05"),
    ("twenty-five grams", "25 g"),
    ("零下5摄氏度", "-5 °C"),
    ("5 to 9 days", "5 days to 9 days"),
    ("1623-25", "1623 - 1625"),
    ("30 per cent", "30 %"),
    ("15亿吨", "1.5 gigatons"),
    ("3到5万", "30 to 50 thousand"),
    ("1970年以来", "since 1970"),
    ("过去1000年中", "1000 years"),
    ("880 年代", "the 880s"),
    ("20世纪70年代及80年代初", "the 1970s and early 1980s"),
    ("上世纪60年代末", "the late 60s"),
    ("二十世纪七十年代", "the 1970s"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_quantity_has_one_form(one: str, other: str) -> None:
    left, right = read_figures(one).quantities, read_figures(other).quantities
    assert len(left) == len(right) > 0
    assert all(a.agrees(b) and b.agrees(a) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("180 days", "180 hours"),
        ("5 kg", "5 m"),
        ("5 °C", "-5 °C"),
        ("12 %", "12 倍"),
        ("2024年3月5日", "2024年3月6日"),
        ("1.5", "15"),
        ("3万", "3亿"),
    ],
)
def test_other_units_and_values_are_other_quantities(one: str, other: str) -> None:
    (left,), (right,) = read_figures(one).quantities, read_figures(other).quantities
    assert not left.agrees(right) and not right.agrees(left)


def test_a_missing_unit_or_part_of_a_date_may_be_any() -> None:
    (bare,), (days,) = read_figures("180").quantities, read_figures("180 days").quantities
    assert bare.agrees(days)
    (year,), (day,) = read_figures("in 2024").quantities, read_figures("2024-03-05").quantities
    assert year.agrees(day)


def test_a_month_of_a_date_is_no_number_of_months() -> None:
    (span,), (month,) = read_figures("3个月").quantities, read_figures("3月").quantities
    assert not span.agrees(month) and not month.agrees(span)


def test_roman_numerals_and_a_decade_are_read_for_what_rests_on_them() -> None:
    assert {float(one.raw) for one in read_figures("Super Bowl XXXIII in Part IV").loose} == {33, 4}
    (decade,) = read_figures("for a decade or more").loose
    (years,) = read_figures("10 年").quantities
    assert decade.agrees(years)
    assert not read_figures("size XL, a mix of I and VV, A/C").loose


def test_codes_are_no_numbers_and_list_numbers_are_none() -> None:
    assert read_figures("The HX-400 and v2.1 of A4-size").codes == {"hx-400", "v2.1", "a4"}
    assert told("The HX-400 holds 12 L") == [(12.0, "l")]
    assert told("1. Open it.\n2) Close it.\n三、关闭") == []
    assert told("one of them, 一个") == []


@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    read_figures(text)


def test_a_long_run_of_digits_is_read_in_time() -> None:
    read_figures("9" * 100_000 + " 1,1,1,1" * 10_000 + "一" * 50_000 + "twenty " * 20_000)
