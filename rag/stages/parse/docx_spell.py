"""Word number formats ([ECMA-376] 17.18.59): a number spelled as text."""

from __future__ import annotations

_DIGITS = "零一二三四五六七八九"
_UNITS = ("", "十", "百", "千")
_FORMAL = str.maketrans("一二三四五六七八九十百千", "壹贰叁肆伍陆柒捌玖拾佰仟")
_STEMS = "甲乙丙丁戊己庚辛壬癸"
_BRANCHES = "子丑寅卯辰巳午未申酉戌亥"
_CHINESE = {
    "chineseCounting",
    "chineseCountingThousand",
    "taiwaneseCounting",
    "taiwaneseCountingThousand",
    "japaneseCounting",
    "koreanCounting",
}
_FORMAL_FORMS = {"chineseLegalSimplified", "ideographLegalTraditional", "japaneseLegal"}
_ROMAN = (
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
)


def spell_number(number: int, form: str) -> str:
    """Return ``number`` in a w:numFmt; unknown formats and wild numbers are decimal."""
    if not 0 <= number < 10_000:
        return str(number)
    if form in _CHINESE:
        return _chinese(number)
    if form in _FORMAL_FORMS:
        return _chinese(number, is_formal=True).translate(_FORMAL)
    if form == "ideographDigital":
        return "".join(_DIGITS[int(digit)] for digit in str(number)).replace("零", "〇")
    return _by_letters(number, form)


def _by_letters(number: int, form: str) -> str:
    if form == "ideographTraditional" and 1 <= number <= len(_STEMS):
        return _STEMS[number - 1]
    if form == "ideographZodiac" and 1 <= number <= len(_BRANCHES):
        return _BRANCHES[number - 1]
    if form.startswith("decimalEnclosedCircle") and 1 <= number <= 20:
        return chr(ord("①") + number - 1)
    if form == "decimalFullWidth":
        return "".join(chr(ord(digit) + 0xFEE0) for digit in str(number))
    if form == "decimalZero":
        return f"{number:02d}"
    if form in ("upperLetter", "lowerLetter") and 1 <= number <= 780:
        letter = chr(ord("A") + (number - 1) % 26) * ((number - 1) // 26 + 1)
        return letter if form == "upperLetter" else letter.lower()
    if form in ("upperRoman", "lowerRoman") and number:
        roman = _roman(number)
        return roman if form == "upperRoman" else roman.lower()
    return str(number)


def _chinese(number: int, is_formal: bool = False) -> str:
    out, is_gap = "", False
    for power in range(3, -1, -1):
        digit = number // 10**power % 10
        if digit:
            out += ("零" if is_gap and out else "") + _DIGITS[digit] + _UNITS[power]
            is_gap = False
        else:
            is_gap = True
    # Ten to nineteen do without the leading one, except in formal figures.
    if 10 <= number < 20 and not is_formal:
        out = out[1:]
    return out or "零"


def _roman(number: int) -> str:
    out = ""
    for value, letters in _ROMAN:
        out += letters * (number // value)
        number %= value
    return out
