"""Number formats: what Excel shows of a stored value."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.parse.spreadsheet.number_format import (
    MAX_CODE,
    display_general,
    display_number,
    display_text,
)


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (0.125, "0.0%", "12.5%"),
        (0.125, "0.0 %", "12.5 %"),
        (42, "00000", "00042"),
        (300, '"¥"#,##0.00', "¥300.00"),
        (300, "[$¥-804]#,##0.00", "¥300.00"),
        (1234.5, "[$€-407] #,##0.00", "€ 1,234.50"),
        (1234, '#,##0"元"', "1,234元"),
        (-1234, "#,##0;(#,##0)", "(1,234)"),
        (-5, "$#,##0.00_);[Red]($#,##0.00)", "($5.00)"),
        (-1234.5, "[Red]0.0", "-1234.5"),
        (-5, '0.00" kg"', "-5.00 kg"),
        (0, '0.00;-0.00;"-"', "-"),
        (-3, '0;;"z"', ""),
        (0, "#", ""),
        (0.5, "#.##", ".5"),
        (-0.4, "0", "0"),
        (2.5, "0", "3"),
        (1.005, "0.00", "1.01"),
        (99.995, "0.00", "100.00"),
        (1e6, "#,##0,", "1,000"),
        (12_200_000, "#.0,,", "12.2"),
        (7, "00.00##", "07.00"),
        (13_800_138_000, "000-0000-0000", "138-0013-8000"),
        (1e15, "0", "1000000000000000"),
        (5, '[>=3]"high";"low"', "high"),
        (2, '[>=3]"high";"low"', "low"),
        (5, 'General" pcs"', "5 pcs"),
        (1.5e-7, "0.00E+00", "1.50E-07"),
        (12345.678, "##0.0E+0", "12.3E+3"),
        (9.999, "0.0E+0", "1.0E+1"),
        (0.5, "# ?/?", "1/2"),
        (2.25, "# ?/?", "2 1/4"),
        (2.25, "?/?", "9/4"),
        (0.3, "# ?/8", "2/8"),
        (3, "# ?/?", "3"),
    ],
)
def test_numbers_are_shown_as_their_code_says(value: float, code: str, shown: str) -> None:
    assert display_number(value, code) == shown


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (46205, 'yyyy"年"m"月"d"日"', "2026年7月2日"),
        (46205, '[$-804]yyyy"年"m"月"d"日";@', "2026年7月2日"),
        (46205, "dddd, d mmmm yy", "Thursday, 2 July 26"),
        (46205, "[$-804]dddd", "星期四"),
        (46205, "aaaa", "星期四"),
        (46205.57291666666, "yyyy-mm-dd hh:mm", "2026-07-02 13:45"),
        (46205.5, "m/d/yy h:mm AM/PM", "7/2/26 12:00 PM"),
        (0.75, '上午/下午h"时"mm"分"', "下午6时00分"),
        (0.3541666666666667, "hh:mm", "08:30"),
        (0.75, "h:mm:ss.000", "18:00:00.000"),
        (1.260416666666667, "[h]:mm", "30:15"),
        (0.0104166, "[mm]:ss", "15:00"),
        (-0.5, "[h]:mm", "-12:00"),
        (1, "yyyy-mm-dd", "1900-01-01"),
        (59, "yyyy-mm-dd", "1900-02-28"),
        (60, "yyyy-mm-dd", "1900-02-29"),
        (61, "yyyy-mm-dd", "1900-03-01"),
        (-1, "yyyy", "-1"),
        (1e9, "yyyy", "1000000000"),
    ],
)
def test_dates_times_and_durations(value: float, code: str, shown: str) -> None:
    assert display_number(value, code) == shown


def test_the_calendar_of_1904_begins_four_years_later() -> None:
    assert display_number(0, "yyyy-mm-dd", is_1904=True) == "1904-01-01"


def test_without_a_format_all_digits_are_told() -> None:
    shown = [display_general(value) for value in (0.1 + 0.2, 20.0, -0.0, 13_800_138_000.0, 1e-12)]
    assert shown == ["0.3", "20", "0", "13800138000", "1E-12"]


def test_a_text_has_what_its_code_puts_around_it() -> None:
    assert display_text("HX-1", '"No. "@') == "No. HX-1"
    assert display_text("HX-1", "0.00") == "HX-1"


@given(st.floats(-1e9, 1e9), st.integers(0, 5), st.booleans())
def test_decimals_are_rounded_as_people_round(value: float, n: int, is_grouped: bool) -> None:
    code = ("#,##0" if is_grouped else "0") + (f".{'0' * n}" if n else "")
    known = Decimal(f"{value:.15g}").quantize(Decimal(1).scaleb(-n), ROUND_HALF_UP)
    wanted = f"{known if known else abs(known):{',' if is_grouped else ''}.{n}f}"
    assert display_number(value, code) == wanted


@given(st.integers(61, 2_000_000), st.integers(0, 86_399))
def test_each_second_of_each_day_is_found_again(days: int, second: int) -> None:
    day = date(1899, 12, 30) + timedelta(days=days)
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    value = days + second / 86_400
    assert display_number(value, "yyyy-mm-dd hh:mm:ss") == f"{day.isoformat()} {clock}"


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.sampled_from('0#?.,%/E+-;"\\_*[]$@ymdhs<>=1aAMPGeneral通用 '), max_size=40),
)
def test_no_code_makes_more_than_a_line_of_a_number(value: float, code: str) -> None:
    assert len(display_number(value, code)) < 2000


def test_a_code_that_no_program_writes_says_nothing() -> None:
    assert display_number(1.5, "0" * (MAX_CODE + 1)) == "1.5"
    assert display_number(1.5, "[h" * 5000) == "1.5"
