"""Quantities: numbers with units and dates of a text, in one form for both languages, compared.

Values are exact (decimal) in the base unit of their dimension: seconds, metres, grams, litres, …;
months and years are counted in months, for they have no fixed number of days.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import zip_longest

from rag.stages.text.normalize import to_simplified
from rag.stages.text.units import UNITS

_SIGNS = {"$": "usd", "¥": "yuan", "€": "eur", "£": "gbp"}
_DIGITS = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {
    "〇": 0,
    "两": 2,
    "壹": 1,
    "贰": 2,
    "叁": 3,
    "肆": 4,
    "伍": 5,
    "陆": 6,
    "柒": 7,
    "捌": 8,
    "玖": 9,
}
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50}
_STEPS = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000, "仟": 1000}
_MYRIADS = {"万": 10**4, "亿": 10**8}
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    " fifteen sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {name: value for value, name in enumerate(_SMALL.split())}
_WORDS |= {name: 10 * value for value, name in enumerate(_TENS.split(), 2)}
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "dozen": 12}
NUMERALS = frozenset({*_DIGITS, *_STEPS, *_MYRIADS, *_WORDS, *_SCALES})
_ORDINAL_WORDS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
    " thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
    " twenty-first"
)
_ORDINALS = {name: value for value, name in enumerate(_ORDINAL_WORDS.split(), 1)}
_MONTH_NAMES = (
    "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug"
    "|september sept sep|october oct|november nov|december dec"
)
_MONTHS = {
    name: number
    for number, names in enumerate(_MONTH_NAMES.split("|"), 1)
    for name in names.split()
}
# 1623-25, and 1623 to 1625.
_SHORT_YEAR = re.compile(r"(?<!\d)([12]\d)(\d\d)\s?[-–]\s?([1-9]\d)(?!\d|\s?[-–/.年月]\s?\d)")
_HAN_NUMBER = "一二三四五六七八九十"
# Decades: of a century, of the last one named, or of the twentieth.
_DECADE = re.compile(
    rf"(?:(?<![\d{_HAN_NUMBER}])(?P<century>\d{{1,2}}|[{_HAN_NUMBER}]{{1,3}}|上个?)\s?世纪\s?)?"
    rf"(?<!\d)(?P<decade>\d0|[{_HAN_NUMBER[1:9]}]十)\s?年代"
    r"|\b(?:the|early|mid|late)[ -](?:early |mid-|late )?['’]?(?P<short>[2-9]0)s\b"
)
_LONG_DECADE = re.compile(r"(?<!\d)(\d{2,3}0)\s?年代")
# A lone letter and two tens of a size are no numerals.
_ROMAN = re.compile(r"(?<![\w-])(?=[IVX]{2}|[IVXL]{3})(?:XL|L?X{0,3})(?:IX|IV|V?I{0,3})(?![\w-])")
_COMPOUND = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)\s?亿\s?(\d+(?:\.\d+)?)\s?万")
_HUNDREDS, _MEASURED = re.compile(r"\b(\d{1,2})00s\b"), re.compile(r"\b(\d+(?:\.\d+)?)[a-z]{2,}\b")
# Words that another language may write as a figure.
_SPOKEN_WORDS = {
    1: "one once single first 一 首 单",
    2: "two both pair couple twice double doubled doubles second 两 双 俩 对 二",
    3: "three triple tripled thrice third trio 三",
    50: "half 半",
    25: "quarter 四分之一",
    10: "ten decade 十",
    100: "hundred century 百",
    1000: "thousand millennium 千",
}
_SPOKEN = {word: value for value, words in _SPOKEN_WORDS.items() for word in words.split()}
_SPOKEN_WORD = re.compile("|".join(rf"\b{word}\b" if word.isascii() else word for word in _SPOKEN))
_SPAN = re.compile(r"\b(?:a|per|each|every) (decade|century)\b")
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATE = re.compile(
    r"(?<!\d)(?P<y1>\d{4})\s?[-/.]\s?(?P<m1>\d{1,2})\s?[-/.]\s?(?P<d1>\d{1,2})(?!\d)"
    r"|(?P<y2>\d{4})\s?年\s?(?:(?P<m2>\d{1,2})\s?月\s?(?:(?P<d2>\d{1,2})\s?[日号])?)?(?!内|以|间|来|后|前|期)"
    r"|(?<!\d)(?P<m3>\d{1,2})\s?月\s?(?P<d3>\d{1,2})\s?[日号]"
    rf"|\b(?P<m4>{_MONTH})\.? (?P<d4>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<y4>\d{{4}}))?\b"
    rf"|\b(?P<d5>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<m5>{_MONTH})\b\.?(?:,? (?P<y5>\d{{4}}))?"
    rf"|\b(?P<m6>{_MONTH})\.?,? (?P<y6>\d{{4}})\b"
    r"|(?<!\d)(?P<m8>\d{1,2})\s?月(?!内|间)"
    r"|\b(?P<m9>january|february|april|june|july|august|september|october|november|december)\b"
    r"|(?<![a-z0-9])(?P<y8>\d{3,4})s(?![a-z0-9])"
    r"|\b(?:in|since|until|year) (?P<y7>1\d{3}|20\d{2})\b(?![.,]\d)"
)
_NUMERAL = (
    r"\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?"
    r"|[零一二三四五六七八九十百千万亿两〇壹贰叁肆伍陆柒捌玖拾佰仟]+"
    rf"|(?:\b(?:{'|'.join([*_WORDS, *_SCALES])})\b[ -]?(?:and )?)+"
)
_ORDINAL = rf"\b(?P<ordinal>{'|'.join(sorted(_ORDINALS, key=len, reverse=True))})\b"
_UNIT = "|".join(map(re.escape, sorted(UNITS, key=len, reverse=True)))
_QUANTITY = re.compile(
    r"(?P<percent>百分之|千分之)?(?P<nth>第)?"
    r"(?P<minus>(?<![\w)\]\s])[-−](?=\d)|(?<=\s)[-−](?=\d)|零下\s?|\bminus )?"
    rf"(?P<sign>[$¥€£]\s?)?(?P<number>{_NUMERAL})"
    r"(?P<times>\s?(?:万亿|[十百千]?[万亿]|million|billion|trillion|thousand)|(?<=\d)(?:mn?|bn|k)\b)?"
    r"(?P<half>个半)?"
    rf"(?:[\s-]?(?P<unit>{_UNIT})(?![a-z]))?|{_ORDINAL}"
)
_TIMES = {"万亿": 10**12, "thousand": 10**3} | {
    f"{step}{myriad}": _STEPS.get(step, 1) * value
    for step in ("", "十", "百", "千")
    for myriad, value in _MYRIADS.items()
}
_TIMES |= {
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_SHORT_TIMES = {"m": 10**6, "mn": 10**6, "bn": 10**9, "k": 10**3}
_TIMES |= _SHORT_TIMES
# A letter or a hyphen beside digits makes a code of them: HX-400, A4, v2.1.
_CODE = re.compile(
    r"(?<![a-z0-9])(?=[a-z0-9._/-]*[a-z])(?=[a-z0-9._/-]*\d)[a-z0-9]+(?:[._/-][a-z0-9]+)*(?![a-z0-9])"
)
_JOINED = re.compile(r"(?<=\d)(?:-[a-z]{2,})+$")
_CODE_IS_QUANTITY = re.compile(rf"\d+(?:[.,]\d+)*(?:{_UNIT}|s)|\d+(?:st|nd|rd|th)?(?:-[a-z]+)*")
# From 5 to 9 days: the unit counts for both.
_RANGE = re.compile(r"\s?(?:to|and|or|-|–|—|~|～|至|到|或|和)\s?")
_CLAIMLESS = frozenset({"一", "one", "千", "百", "万", "亿", "十", "zero", "零", "〇", "两"})
_BULLET = re.compile(
    r"(?m)^\s*(?:[-*•>#]+\s*)*(?:\(?\d{1,3}[.)、]\s|[（(]?[一二三四五六七八九十]{1,3}[、)）])"
)


_LEAST_YEAR = 1000


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as it was written (``raw``), and in the base unit of its dimension.

    ``dimension`` is empty where no known unit stands beside it, ``date`` for the parts of a date:
    ``raw`` is then year, month and day as in 20240305, with zeros for what was left out.
    ``is_word`` tells one that is written in words.
    """

    raw: Decimal
    dimension: str = ""
    value: Decimal = Decimal(0)
    is_word: bool = False

    def agrees(self, other: Quantity) -> bool:
        """Return whether both can mean the same: a missing unit or part of a date may be any."""
        if "date" in (self.dimension, other.dimension):
            return self._agrees_as_date(other)
        if not self.dimension or not other.dimension:
            return self.raw == other.raw
        return self.dimension == other.dimension and self.value == other.value

    def rivals(self, other: Quantity) -> bool:
        """Return whether one may stand in the other's place: both can measure the same."""
        kinds = {self.dimension, other.dimension}
        return len(kinds) == 1 or ("" in kinds and "date" not in kinds)

    def _agrees_as_date(self, other: Quantity) -> bool:
        if self.dimension != other.dimension:
            date, number = (self, other) if self.dimension == "date" else (other, self)
            if number.dimension == "month" and number.raw >= _LEAST_YEAR:
                # 1970年以来 is a year, 过去1000年中 are a thousand: read either way.
                return number.value == 12 * number.raw == 12 * _date_parts(date.raw)[0]
            return not number.dimension and number.raw in [
                part for part in _date_parts(date.raw) if part
            ]
        pairs = zip(_date_parts(self.raw), _date_parts(other.raw), strict=True)
        return all(not left or not right or left == right for left, right in pairs)


def _date_parts(raw: Decimal) -> tuple[int, int, int]:
    whole = int(raw)
    return whole // 10_000, whole // 100 % 100, whole % 100


@dataclass(frozen=True, slots=True)
class Figures:
    """The quantities of a text in order, and its codes (HX-400).

    ``loose`` may be meant as numbers: XLIX, a decade. A claim may rest on them, and makes none.
    """

    quantities: Sequence[Quantity]
    codes: frozenset[str]
    loose: Sequence[Quantity] = ()


@lru_cache(maxsize=2048)
def read_figures(text: str) -> Figures:
    """Return the quantities and codes of a text; numbers of lists and a mere “one” are left out."""
    plain = to_simplified(text.replace("²", "2").replace("³", "3"))
    plain = unicodedata.normalize("NFKC", plain).casefold()
    plain = _BULLET.sub(lambda match: " " * len(match[0]), plain).replace("第二天", "次日")
    codes = set[str]()
    for match in list(_CODE.finditer(plain)):
        if not _CODE_IS_QUANTITY.fullmatch(match[0]):
            # What is joined to a code by a hyphen is no part of it: HX-400-based.
            codes.add(_JOINED.sub("", match[0]))
            plain = plain[: match.start()] + " " * len(match[0]) + plain[match.end() :]
    plain = _LONG_DECADE.sub(r"\1s", _with_decades(plain))
    plain = _COMPOUND.sub(lambda match: f"{Decimal(match[1]) * 10**4 + Decimal(match[2])}万", plain)
    plain = _SHORT_YEAR.sub(r"\1\2 - \1\3", plain)
    dates: list[Quantity] = []
    for match in list(_DATE.finditer(plain)):
        if (date := _date(match)) is not None:
            dates.append(date)
            plain = plain[: match.start()] + " " * len(match[0]) + plain[match.end() :]
    return Figures((*dates, *_numbers(plain)), frozenset(codes), tuple(_loose(text)))


def _with_decades(plain: str) -> str:
    """Return a text with its decades written as 1970s."""
    century = Decimal(20)

    def year(match: re.Match[str]) -> str:
        nonlocal century
        named = match["century"] or ""
        if named and named[0] != "上":
            century = _value(named) or century
        tens = _value(match["decade"] or match["short"]) or Decimal(0)
        return f" {100 * (century - 1) + tens}s "

    return _DECADE.sub(year, plain)


def _loose(text: str) -> Iterator[Quantity]:
    for match in _ROMAN.finditer(text):
        signs = [_ROMAN_VALUES[sign] for sign in match[0]]
        # A sign before a greater one is taken off.
        pairs = zip_longest(signs, signs[1:], fillvalue=0)
        yield _quantity(Decimal(sum(-one if one < after else one for one, after in pairs)), "")
    folded = text.casefold()
    for match in _SPAN.finditer(folded):
        yield _quantity(Decimal(1), match[1])
    for match in _HUNDREDS.finditer(folded):
        # The 1800s are the 19th century.
        yield _quantity(Decimal(match[1]) + 1, "")
    for match in _MEASURED.finditer(folded):
        yield _quantity(Decimal(match[1]), "")


def spoken_numbers(text: str) -> list[Quantity]:
    """Return what a text may say by words that a translation writes as a figure: both, half, 两."""
    found = {_SPOKEN[match[0]] for match in _SPOKEN_WORD.finditer(text.casefold())}
    return [_quantity(Decimal(value), "") for value in sorted(found)]


def _date(match: re.Match[str]) -> Quantity | None:
    parts = {name[0]: value for name, value in match.groupdict().items() if value}
    month = parts.get("m", "0")
    number = int(month) if month.isdigit() else _MONTHS[month]
    year, day = int(parts.get("y", 0)), int(parts.get("d", 0))
    if number > 12 or day > 31:
        return None
    return Quantity(Decimal(year * 10_000 + number * 100 + day), "date")


def _numbers(plain: str) -> Iterator[Quantity]:
    matches = list(_QUANTITY.finditer(plain))
    for match, following in zip_longest(matches, matches[1:]):
        if match["ordinal"]:
            # “second” is a unit of time as well, and “first” often only an adverb.
            if match["ordinal"] not in ("first", "second"):
                yield _quantity(Decimal(_ORDINALS[match["ordinal"]]), "")
            continue
        word = match["number"].strip()
        unit = match["unit"] or ""
        if not unit and following and _RANGE.fullmatch(plain, match.end(), following.start()):
            unit = following["unit"] or ""
        if word in _CLAIMLESS and not (unit and unit in UNITS) and not match["times"]:
            continue
        value = _value(word)
        if value is None:
            continue
        times = (match["times"] or "").strip()
        if not (times or match["unit"]) and following and following["times"]:
            # 3到5万: the one is as large as the other.
            is_range = _RANGE.fullmatch(plain, match.end(), following.start())
            most = _value(following["number"].strip()) if is_range else None
            times = following["times"].strip() if most and value < most else ""
        if times in _SHORT_TIMES and not match["sign"]:
            # Only of money is 30m thirty million.
            times, unit = "", times
        if times:
            value *= _TIMES[times]
        if match["half"]:
            value += Decimal("0.5")
        if match["minus"]:
            value = -value
        if match["percent"]:
            unit = "%" if match["percent"] == "百分之" else "‰"
        elif match["sign"]:
            unit = {"usd": "usd", "yuan": "cny"}.get(_SIGNS[match["sign"].strip()], unit)
        if word in _CLAIMLESS and unit in ("年", "月", "日", "天", "人", "名", "位", "次", "回"):
            continue
        yield _quantity(
            value, "" if match["nth"] else unit, is_word=bool(match["nth"]) or not word[0].isdigit()
        )


def _quantity(value: Decimal, unit: str, *, is_word: bool = True) -> Quantity:
    dimension, factor = UNITS.get(unit, ("", Decimal(1)))
    return Quantity(value.normalize(), dimension, (value * factor).normalize(), is_word)


def _value(word: str) -> Decimal | None:
    if word[0].isdigit():
        try:
            return Decimal(word.replace(",", ""))
        except InvalidOperation:
            # Digits of other scripts that no decimal is made of.
            return None
    if word[0].isascii():
        return _english(re.findall(r"[a-z]+", word))
    return _chinese(word)


def _english(words: Sequence[str]) -> Decimal:
    total = part = 0
    for word in words:
        if word in _WORDS:
            part += _WORDS[word]
        elif word in ("hundred", "dozen"):
            part = max(part, 1) * _SCALES[word]
        elif word in _SCALES:
            total, part = total + max(part, 1) * _SCALES[word], 0
    return Decimal(total + part)


def _chinese(word: str) -> Decimal:
    if not any(sign in _STEPS or sign in _MYRIADS for sign in word):
        # Digit by digit, as years are written.
        return Decimal("".join(str(_DIGITS[sign]) for sign in word))
    total = part = digit = 0
    for sign in word:
        if sign in _DIGITS:
            digit = _DIGITS[sign]
        elif sign in _STEPS:
            part, digit = part + max(digit, 1) * _STEPS[sign], 0
        else:
            total, part, digit = (total + max(part + digit, 1)) * _MYRIADS[sign], 0, 0
    return Decimal(total + part + digit)


_ABOUT = re.compile(
    r"about|approximately|approx|around|roughly|nearly|almost|some |over|more than|less than|under"
    r"|约|大约|左右|近|将近|超过|多于|不到|以上|余|几乎|大概|上下"
)
_TOLERANCE = 0.06
_DIGIT_RUN = re.compile(r"\d+")


def numbers_differ(claim: str, source: str, around: str, *, is_translated: bool) -> bool:
    """Return whether a claim has a number in the place of one of its source.

    One that stands ``around`` the source counts for the claim. Where it ``is_translated``, words
    are no numbers of the claim.
    """
    said, told = read_figures(claim).quantities, read_figures(source).quantities
    loose = read_figures(source).loose
    if is_translated:
        # 两 and “both”, 首 and “first”: only figures survive translation.
        said = [one for one in said if not one.is_word]
        loose = (*loose, *spoken_numbers(source))
    tolerance = _TOLERANCE if is_rounded(claim, source) else 0.0
    missing = [one for one in said if not _is_among(one, (*told, *loose), tolerance)]
    left = [one for one in told if not _is_among(one, said, tolerance)]
    # From 5 to 5 days is not from 5 to 9.
    again = [one for one in set(said) if said.count(one) > max(1, sum(map(one.agrees, told)))]
    if any(one.rivals(other) for one in again for other in left):
        return True
    near = read_figures(around).quantities if around else ()
    return any(
        any(one.rivals(other) for other in left) or not _is_among(one, near, tolerance)
        for one in missing
    )


def is_rounded(claim: str, source: str) -> bool:
    """Return whether a claim says about what its source says exactly."""
    return bool(_ABOUT.search(claim)) and not _ABOUT.search(source)


def _is_among(one: Quantity, others: Sequence[Quantity], tolerance: float) -> bool:
    return any(
        one.agrees(other)
        or (
            tolerance > 0
            and one.dimension == other.dimension != "date"
            and abs(one.value - other.value) <= abs(float(other.value)) * tolerance
        )
        for other in others
    )


def codes_differ(claim: str, source: str) -> bool:
    """Return whether a code of the claim stands where the source has one of the same shape."""
    said, told = read_figures(claim).codes, read_figures(source).codes
    shapes = {_DIGIT_RUN.sub("0", code) for code in told - said}
    return any(_DIGIT_RUN.sub("0", code) in shapes for code in said - told)
