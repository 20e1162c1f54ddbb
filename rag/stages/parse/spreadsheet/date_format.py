"""Excel date formats: a serial number as date, time or duration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

# What the 1900 system believes to be a leap day; numbers before it are one day behind.
_NO_LEAP_DAY = 60
_LAST_DAY = 2_958_465
_EPOCH, _EPOCH_1904 = date(1899, 12, 30), date(1904, 1, 1)
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_HAN = "一二三四五六七八九十"
_HAN_MONTHS = [f"{name}月" for name in (*_HAN, "十一", "十二")]
_HAN_DAYS = [f"星期{name}" for name in "一二三四五六日"]
DATE_PART = re.compile(r"yyyy|yy?|m{1,5}|d{1,4}|h{1,2}|s{1,2}|e{1,4}|a{3,4}|b{1,4}|g{1,3}", re.I)
ELAPSED_PART = re.compile(r"\[(h+|m+|s+)\]", re.I)
HALF_DAY = re.compile(r"AM/PM|A/P|上午/下午", re.I)


@dataclass(frozen=True, slots=True)
class DatePart:
    """A part of a date format: ``kind`` is literal, part, elapsed, half or fraction."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _Moment:
    day: date
    is_leap_bug: bool
    n_days: int
    seconds: int
    fraction: str


def format_date(
    value: float, parts: Sequence[DatePart], *, is_1904: bool, is_chinese: bool
) -> str | None:
    """Return what is shown of a serial number, None for one that is no date."""
    is_span = any(part.kind == "elapsed" for part in parts)
    if not 0 <= value <= _LAST_DAY and not (is_span and abs(value) <= _LAST_DAY):
        return None
    digits = max((len(part.text) for part in parts if part.kind == "fraction"), default=0)
    moment = _moment(abs(value), digits, is_1904=is_1904)
    has_half = any(part.kind == "half" for part in parts)
    out = ["-"] if value < 0 else []
    for at, part in enumerate(parts):
        if part.kind == "part":
            out.append(_part(part.text, _is_minute(parts, at), moment, has_half, is_chinese))
        elif part.kind == "elapsed":
            out.append(_elapsed(part.text, moment))
        elif part.kind == "half":
            names = part.text.split("/")
            out.append(names[moment.seconds >= 43_200])
        elif part.kind == "fraction":
            out.append(f".{moment.fraction}")
        else:
            out.append(part.text)
    return "".join(out)


def _moment(value: float, digits: int, *, is_1904: bool) -> _Moment:
    # Numbers of days are not exact in seconds: 13:45 is stored a trifle too small.
    ticks = round(value * 86_400 * 10**digits)
    total, fraction = divmod(ticks, 10**digits)
    n_days, seconds = divmod(total, 86_400)
    if is_1904:
        day = _EPOCH_1904 + timedelta(days=n_days)
    else:
        day = _EPOCH + timedelta(days=n_days + (n_days < _NO_LEAP_DAY))
    is_bug = not is_1904 and n_days == _NO_LEAP_DAY
    return _Moment(day, is_bug, n_days, seconds, f"{fraction:0{digits}d}" if digits else "")


def _is_minute(parts: Sequence[DatePart], at: int) -> bool:
    """Return whether an ``m`` is of minutes: behind hours or before seconds."""
    if parts[at].text[:1].lower() != "m" or len(parts[at].text) > 2:
        return False
    timed = ("part", "elapsed")
    before = next((p.text for p in reversed(parts[:at]) if p.kind in timed), "")
    after = next((p.text for p in parts[at + 1 :] if p.kind in timed), "")
    return before[:1].lower() == "h" or after[:1].lower() == "s"


def _part(text: str, is_minute: bool, moment: _Moment, has_half: bool, is_chinese: bool) -> str:
    name, width = text[0].lower(), len(text)
    if name in "hs" or is_minute:
        hours, minutes, seconds = (
            moment.seconds // 3600,
            moment.seconds // 60 % 60,
            moment.seconds % 60,
        )
        hours = (hours % 12 or 12) if has_half else hours
        number = {"h": hours, "m": minutes, "s": seconds}[name]
        return f"{number:0{min(width, 2)}d}"
    day = moment.day
    if name in "ye":
        return f"{day.year % 100:02d}" if width <= 2 and name == "y" else str(day.year)
    if name == "b":
        year = day.year + 543
        return f"{year % 100:02d}" if width <= 2 else str(year)
    if name == "g":
        return ""
    if name == "m":
        return _month(day.month, width, is_chinese)
    if name == "a":
        han = _HAN_DAYS[day.weekday()]
        return han if width == 4 else han.removeprefix("星期")
    if width > 2:
        names = _HAN_DAYS if is_chinese else _DAYS
        full = names[day.weekday()]
        return full if width == 4 or is_chinese else full[:3]
    number = 29 if moment.is_leap_bug else day.day
    return f"{number:0{width}d}"


def _month(number: int, width: int, is_chinese: bool) -> str:
    if width <= 2:
        return f"{number:0{width}d}"
    if is_chinese:
        return _HAN_MONTHS[number - 1] if width == 4 else f"{number}月"
    full = _MONTHS[number - 1]
    return {3: full[:3], 5: full[0]}.get(width, full)


def _elapsed(text: str, moment: _Moment) -> str:
    total = moment.n_days * 86_400 + moment.seconds
    per = {"h": 3600, "m": 60, "s": 1}[text[0].lower()]
    return f"{total // per:0{len(text)}d}"
