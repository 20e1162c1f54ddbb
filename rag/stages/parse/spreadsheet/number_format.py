"""Excel number formats: what a cell shows of its value, by a format code ([ECMA-376] 18.8.31)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from rag.stages.parse.spreadsheet.date_format import (
    DATE_PART,
    ELAPSED_PART,
    HALF_DAY,
    DatePart,
    format_date,
)

# Excel takes no longer ones; such a code says nothing.
MAX_CODE = 255
_MAX_SECTIONS = 4
_DIGITS = "0#?"
# Fifteen digits of a number are known; none is longer than 308.
_EXCEL, _WIDE = Context(prec=15), Context(prec=700)
_COLOURS = (
    "black|blue|cyan|green|magenta|red|white|yellow|color ?\\d+|黑色|蓝色|红色|绿色|白色|黄色"
)
_TOKEN = re.compile(
    rf'(?P<quoted>"[^"]*"?)|\\(?P<escaped>.)|_(?P<space>.)|\*(?P<fill>.)'
    rf"|(?P<elapsed>\[(?:h+|m+|s+)\])|\[\$(?P<money>[^\]]*)\]"
    rf"|\[(?P<cond>[<>=]{{1,2}}-?[\d.]+(?:E[+-]?\d+)?)\]|(?P<colour>\[(?:{_COLOURS})\])|(?P<other>\[[^\]]*\])"
    rf"|(?P<general>General|G/通用格式|常规)|(?P<half>AM/PM|A/P|上午/下午)|(?P<exponent>E[+-])"
    rf"|(?P<end>;)|(?P<char>.)",
    re.I | re.S,
)
_CONDITION = re.compile(r"([<>=]{1,2})(.*)")
# One zero at least before the point, and zeros behind it.
_PLAIN = re.compile(r"((?:#,##|#*)0+)(\.0+)?(?![0#?.,/])")
_CHINESE = re.compile(r"-(?:\w*?)(?:0?804|0?404|0?C04|1004|zh-)", re.I)
_DATE_LETTERS = frozenset("ymdhsbgaeYMDHSBGAE")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Plain:
    """A format of digits with a text before and behind, as nearly all are."""

    lead: str
    tail: str
    n_whole: int
    n_digits: int
    comma: str
    scale: float

    def shown(self, value: float) -> str | None:
        """Return the number, None where rounding needs all of its decimal digits."""
        number = abs(value) * self.scale
        shifted = number * 10**self.n_digits
        if shifted >= 1e11 or abs(shifted % 1 - 0.5) < 1e-3:
            return None
        digits = f"{number:{self.comma}.{self.n_digits}f}"
        if not digits.strip("0.,"):
            return None
        if self.n_whole > 1 and len(digits) < self.n_whole + self.n_digits + 1:
            return None
        return f"{self.lead}{digits}{self.tail}".strip()


@dataclass(frozen=True, slots=True)
class _Section:
    """One of a code's parts between semicolons."""

    tokens: tuple[_Token, ...]
    dates: tuple[DatePart, ...]
    condition: tuple[str, float] | None
    is_chinese: bool
    plain: _Plain | None

    @property
    def takes_text(self) -> bool:
        return any(token.kind == "text" for token in self.tokens)


_POINT, _COMMA, _SLASH = (_Token("char", sign) for sign in ".,/")


def display_number(value: float, code: str, *, is_1904: bool = False) -> str:
    """Return what is shown of a number; one that its code cannot show is told as it is stored."""
    sections = _sections(code)
    if not sections:
        return display_general(value)
    at = _chosen(value, sections)
    if at is None:
        return display_general(value)
    section = sections[at]
    if section.dates:
        shown = format_date(value, section.dates, is_1904=is_1904, is_chinese=section.is_chinese)
        return display_general(value) if shown is None else shown.strip()
    # A section for negative numbers alone says itself how they look.
    is_own = at == 1 and sections[0].condition is None and section.condition is None
    below = section.condition is not None and section.condition[0] in ("<", "<=")
    is_own = is_own or (below and section.condition is not None and section.condition[1] <= 0)
    if section.plain and (shown := section.plain.shown(value)):
        return shown if value >= 0 or is_own else f"-{shown}"
    return _shown(value, section.tokens, is_own=is_own)


def display_text(text: str, code: str) -> str:
    """Return what is shown of a text, which most codes leave alone."""
    if "@" not in code or code == "@":
        return text
    sections = _sections(code)
    section = next((one for one in reversed(sections) if one.takes_text), None)
    if section is None:
        return text
    return "".join(
        text if t.kind == "text" else t.text
        for t in section.tokens
        if t.kind in ("text", "literal")
    )


def display_general(value: float) -> str:
    """Return a number without a format: all its digits, as the line above the sheet shows them."""
    number = _decimal(value)
    if not number:
        return "0"
    if not -10 < number.adjusted() < 21:
        mantissa, _, exponent = f"{number.normalize():E}".partition("E")
        return f"{mantissa}E{int(exponent):+03d}"
    shown = f"{number:f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


@lru_cache(maxsize=2048)
def _sections(code: str) -> tuple[_Section, ...]:
    if len(code) > MAX_CODE:
        return ()
    out: list[_Section] = []
    tokens: list[_Token] = []
    for token in [*_tokens(code), _Token("end")]:
        if token.kind != "end":
            tokens.append(token)
        elif len(out) < _MAX_SECTIONS:
            out.append(_section(tokens))
            tokens = []
    return tuple(out)


def _tokens(code: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(code):
        kind, text = str(match.lastgroup), match[str(match.lastgroup)]
        if kind == "quoted":
            yield _Token("literal", text.strip('"'))
        elif kind == "escaped":
            yield _Token("literal", text)
        elif kind == "space":
            yield _Token("literal", " ")
        elif kind == "money":
            yield _Token("locale", text)
        elif kind == "char" and text in _DIGITS:
            yield _Token("digit", text)
        elif kind == "char" and text == "@":
            yield _Token("text")
        elif kind not in ("fill", "colour", "other"):
            yield _Token(kind, text)


def _section(tokens: list[_Token]) -> _Section:
    condition, is_chinese, kept = None, False, list[_Token]()
    for token in tokens:
        if token.kind == "cond" and (found := _CONDITION.match(token.text)):
            condition = (found[1], _operand(found[2]))
        elif token.kind == "locale":
            is_chinese = is_chinese or bool(_CHINESE.search(token.text))
            kept.append(_Token("literal", token.text.partition("-")[0]))
        else:
            kept.append(token)
    dates = tuple(_dates(kept)) if _is_date(kept) else ()
    plain = None if dates else _plain(kept)
    return _Section(tuple(kept), dates, condition, is_chinese, plain)


def _plain(tokens: list[_Token]) -> _Plain | None:
    written = "".join(t.text if t.kind in ("digit", "char") else "\0" for t in tokens)
    found = _PLAIN.search(written)
    rest = written[: found.start()] + written[found.end() :] if found else "."
    if found is None or rest.strip("\0% +-()"):
        return None
    lead, tail = (
        "".join(t.text for t in some) for some in (tokens[: found.start()], tokens[found.end() :])
    )
    n_whole, n_digits = found[1].count("0"), len(found[2] or ".") - 1
    return _Plain(
        lead, tail, n_whole, n_digits, "," if "," in found[1] else "", 100.0 ** rest.count("%")
    )


def _operand(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _is_date(tokens: list[_Token]) -> bool:
    return any(
        token.kind in ("elapsed", "half") or (token.kind == "char" and token.text in _DATE_LETTERS)
        for token in tokens
    ) and not any(token.kind in ("general", "exponent") for token in tokens)


def _dates(tokens: list[_Token]) -> Iterator[DatePart]:
    at = 0
    while at < len(tokens):
        token = tokens[at]
        run = at
        while (
            run < len(tokens) and tokens[run].kind == "char" and tokens[run].text in _DATE_LETTERS
        ):
            run += 1
        if run > at:
            letters = "".join(one.text for one in tokens[at:run])
            for part in DATE_PART.finditer(letters):
                yield DatePart("part", part[0])
            at = run
            continue
        at += 1
        if token.kind == "elapsed" and (found := ELAPSED_PART.match(token.text)):
            yield DatePart("elapsed", found[1])
        elif token.kind == "half" and HALF_DAY.match(token.text):
            yield DatePart("half", token.text)
        elif token.kind == "char" and token.text == ".":
            n_digits = 0
            while at < len(tokens) and tokens[at] == _Token("digit", "0"):
                n_digits, at = n_digits + 1, at + 1
            yield (
                DatePart("fraction", "0" * min(n_digits, 6))
                if n_digits
                else DatePart("literal", ".")
            )
        elif token.kind != "text":
            yield DatePart("literal", token.text)


def _chosen(value: float, sections: tuple[_Section, ...]) -> int | None:
    """Return which section shows a number, None where none does."""
    numeric = sections[:3]
    if numeric[-1].takes_text and len(numeric) > 1:
        numeric = numeric[:-1]
    if all(section.condition is None for section in numeric):
        if len(numeric) == 1 or value > 0:
            return 0
        return 1 if value < 0 else min(2, len(numeric) - 1) if len(numeric) == 3 else 0
    for at, section in enumerate(numeric):
        if section.condition is None:
            is_last = at == len(numeric) - 1
            if is_last or (value >= 0 if at == 0 else value < 0):
                return at
        elif _holds(value, *section.condition):
            return at
    return None


def _holds(value: float, sign: str, operand: float) -> bool:
    return {
        "<": value < operand,
        "<=": value <= operand,
        ">": value > operand,
        ">=": value >= operand,
        "=": value == operand,
        "<>": value != operand,
    }.get(sign, False)


def _decimal(value: float) -> Decimal:
    """Return a number with the fifteen digits that Excel knows of it."""
    return _EXCEL.create_decimal(repr(value))


def _shown(value: float, tokens: tuple[_Token, ...], *, is_own: bool) -> str:
    kinds = {token.kind for token in tokens}
    number = abs(_decimal(value))
    if "general" in kinds:
        sign = "-" if value < 0 and not is_own else ""
        general = display_general(abs(value))
        texts = (general if t.kind == "general" else t.text for t in tokens)
        return sign + "".join(texts).strip()
    if "digit" not in kinds:
        minus = "-" if value < 0 and not is_own and any(t.text.strip() for t in tokens) else ""
        return minus + "".join(t.text for t in tokens if t.kind != "text").strip()
    number *= 100 ** sum(token == _Token("char", "%") for token in tokens)
    slash = tokens.index(_SLASH) if _SLASH in tokens else 0
    if slash and tokens[slash - 1].kind == "digit":
        shown, is_zero = _fraction(number, tokens, slash)
    elif "exponent" in kinds:
        shown, is_zero = _scientific(number, tokens)
    else:
        shown, is_zero = _decimals(number, tokens)
    return ("-" if value < 0 and not is_own and not is_zero else "") + shown.strip()


def _decimals(number: Decimal, tokens: tuple[_Token, ...]) -> tuple[str, bool]:
    kept, is_grouped, n_thousands = _commas(tokens)
    whole, part, has_point = _parted(kept)
    n_digits = sum(token.kind == "digit" for token in part)
    unit = Decimal(1).scaleb(-n_digits)
    rounded = number.scaleb(-3 * n_thousands).quantize(unit, ROUND_HALF_UP, _WIDE)
    digits, _, fraction = f"{rounded:f}".partition(".")
    out = _before(digits.lstrip("0"), whole, is_grouped=is_grouped)
    if has_point:
        out += "." + _behind(fraction, part)
    return out, not rounded


def _parted(tokens: list[_Token]) -> tuple[list[_Token], list[_Token], bool]:
    """Return the tokens before and behind the decimal point, and whether there is one."""
    if _POINT not in tokens:
        return tokens, [], False
    at = tokens.index(_POINT)
    return tokens[:at], tokens[at + 1 :], True


def _commas(tokens: tuple[_Token, ...]) -> tuple[list[_Token], bool, int]:
    """Return the tokens without commas that group digits or divide by a thousand."""
    places = [at for at, token in enumerate(tokens) if token.kind == "digit"]
    first, last = places[0], places[-1]
    end = last + 1
    while end < len(tokens) and tokens[end] == _COMMA:
        end += 1
    kept = [token for at, token in enumerate(tokens) if token != _COMMA or not first < at < end]
    return kept, _COMMA in tokens[first:last], end - last - 1


def _before(digits: str, tokens: list[_Token], *, is_grouped: bool) -> str:
    """Return the digits before the point in their places, from the right."""
    out: list[str] = []
    n_places = sum(token.kind == "digit" for token in tokens)
    n_done = 0

    def put(digit: str) -> None:
        nonlocal n_done
        if is_grouped and n_done and n_done % 3 == 0 and digit != " ":
            out.append(",")
        out.append(digit)
        n_done += 1

    left = list(digits)
    for token in reversed(tokens):
        if token.kind != "digit":
            out.append(token.text[::-1])
            continue
        n_places -= 1
        if left:
            put(left.pop())
        elif token.text != "#":
            put(token.text.replace("?", " "))
        while left and not n_places:
            put(left.pop())
    while left:  # There is no place before the point.
        put(left.pop())
    return "".join(out)[::-1]


def _behind(digits: str, tokens: list[_Token]) -> str:
    """Return the digits behind the point in their places."""
    out: list[str] = []
    n_shown = len(digits.rstrip("0"))
    at = 0
    for token in tokens:
        if token.kind != "digit":
            out.append(token.text)
            continue
        if at < n_shown or token.text == "0":
            out.append(digits[at])
        elif token.text == "?":
            out.append(" ")
        at += 1
    return "".join(out)


def _scientific(number: Decimal, tokens: tuple[_Token, ...]) -> tuple[str, bool]:
    at = next(n for n, token in enumerate(tokens) if token.kind == "exponent")
    if not any(token.kind == "digit" for token in tokens[:at]):
        return display_general(float(number)), not number
    whole, part, has_point = _parted(list(tokens[:at]))
    step = max(1, sum(token.kind == "digit" for token in whole))
    n_digits = sum(token.kind == "digit" for token in part)
    exponent = (number.adjusted() // step) * step if number else 0
    unit = Decimal(1).scaleb(-n_digits)
    mantissa = number.scaleb(-exponent).quantize(unit, ROUND_HALF_UP, _WIDE)
    if mantissa and mantissa.adjusted() >= step:  # 9.99 became 10.
        exponent += step
        mantissa = number.scaleb(-exponent).quantize(unit, ROUND_HALF_UP, _WIDE)
    digits, _, fraction = f"{mantissa:f}".partition(".")
    out = _before(digits.lstrip("0"), whole, is_grouped=False)
    out += "." + _behind(fraction, part) if has_point else ""
    sign = "-" if exponent < 0 else "+" if tokens[at].text[-1] == "+" else ""
    power = _before(str(abs(exponent)).lstrip("0"), list(tokens[at + 1 :]), is_grouped=False)
    return f"{out}E{sign}{power}", not mantissa


def _fraction(number: Decimal, tokens: tuple[_Token, ...], slash: int) -> tuple[str, bool]:
    """Return a number as a whole and a fraction, such as 2 1/4, or as a fraction alone."""
    begin = slash
    while begin and tokens[begin - 1].kind == "digit":
        begin -= 1
    end = slash + 1
    while end < len(tokens) and (tokens[end].kind == "digit" or tokens[end].text.isdecimal()):
        end += 1
    below = "".join(token.text for token in tokens[slash + 1 : end])
    exact, has_whole = Fraction(number), any(token.kind == "digit" for token in tokens[:begin])
    if below.strip(_DIGITS):
        fixed = int(re.sub(r"\D", "", below) or 1) or 1
        near = Fraction(round(exact * fixed), fixed)
        top, bottom = near * fixed, fixed
    else:
        near = exact.limit_denominator(10 ** min(max(1, len(below)), 4) - 1)
        top, bottom = Fraction(near.numerator), near.denominator
    lead, tail = (
        "".join(t.text for t in some if t.kind == "literal").strip()
        for some in (tokens[:begin], tokens[end:])
    )
    if not has_whole:
        return f"{lead}{top}/{bottom}{tail}", not near
    whole, rest = divmod(int(top), bottom)
    parts = [str(whole)] if whole or not rest else []
    parts += [f"{rest}/{bottom}"] if rest else []
    return f"{lead}{' '.join(parts)}{tail}", not near
