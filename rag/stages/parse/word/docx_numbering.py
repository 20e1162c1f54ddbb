"""Word list numbering: the label of each paragraph, from numbering.xml and styles.xml.

No parser writes 第三条 or 1.1 into the text, since Word computes them; without them the question
what section 3.2 says finds nothing. Number formats: [ECMA-376] 17.18.59.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from xml.etree import ElementTree

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
_HEADING_NAME = re.compile(r"(?:heading|标题)\s*([1-9])", re.I)
_CONTENTS_NAME = re.compile(r"(?:toc|目录)\s*[1-9]", re.I)


def format_number(number: int, form: str) -> str:
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


@dataclass(slots=True)
class _Level:
    start: int = 1
    form: str = "decimal"
    text: str = ""
    style: str = ""
    suffix: str = " "
    restart: int | None = None
    is_legal: bool = False


@dataclass(frozen=True, slots=True)
class Style:
    """What a paragraph style says, its parents' words included; level 0 is no heading."""

    name: str = ""
    number_id: str = ""
    depth: int = 0
    level: int = 0
    is_contents: bool = False


@dataclass(slots=True)
class Numbering:
    """The lists of a document and how far each has counted."""

    lists: dict[str, str] = field(default_factory=dict)
    levels: dict[str, dict[int, _Level]] = field(default_factory=dict)
    restarts: dict[str, dict[int, int]] = field(default_factory=dict)
    counts: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))

    def next_label(self, number_id: str, depth: int, style_id: str = "") -> str:
        """Return the label of the next paragraph of a list, empty for bullets.

        ``style_id`` is given where the style, not the paragraph, asks for the number: the level
        that is linked to the style counts then.
        """
        which = self.lists.get(number_id, "")
        levels, counts = self.levels.get(which, {}), self.counts[which]
        if style_id:
            depth = next((d for d, level in levels.items() if level.style == style_id), depth)
        if depth not in levels:
            return ""
        # Lists of one kind count on from each other, until one of them says where to start.
        for at, start in self.restarts.pop(number_id, {}).items():
            counts[at] = start - 1
        level = levels[depth]
        counts[depth] = counts.get(depth, level.start - 1) + 1
        for deeper in [d for d in counts if d > depth]:
            restart = levels[deeper].restart if deeper in levels else None
            if restart is None or depth < restart:
                del counts[deeper]
        if level.form in ("bullet", "none"):
            return ""

        def spelled(match: re.Match[str]) -> str:
            at = int(match[1]) - 1
            part = levels.get(at, _Level())
            form = "decimal" if level.is_legal else part.form
            return format_number(counts.get(at, part.start), form)

        label = re.sub(r"%([1-9])", spelled, level.text).strip()
        return label + level.suffix if label else ""

    def is_bullet(self, number_id: str, depth: int) -> bool:
        """Return whether the level of a list shows a sign instead of a number."""
        levels = self.levels.get(self.lists.get(number_id, ""), {})
        return depth in levels and levels[depth].form == "bullet"


def read_numbering(xml: bytes) -> Numbering:
    """Return the lists that word/numbering.xml defines."""
    root = ElementTree.fromstring(xml)
    numbering = Numbering()
    links = {}
    for item in _all(root, "abstractNum"):
        which = _attribute(item, "abstractNumId")
        numbering.levels[which] = {
            int(_attribute(level, "ilvl") or 0): _read_level(level) for level in _all(item, "lvl")
        }
        if link := _value(item, "styleLink"):
            links[link] = which
    for item in _all(root, "abstractNum"):
        if (link := _value(item, "numStyleLink")) in links:
            numbering.levels[_attribute(item, "abstractNumId")] = numbering.levels[links[link]]
    for item in _all(root, "num"):
        number_id, which = _attribute(item, "numId"), _value(item, "abstractNumId")
        for override in _all(item, "lvlOverride"):
            depth = int(_attribute(override, "ilvl") or 0)
            if start := _value(override, "startOverride"):
                numbering.restarts.setdefault(number_id, {})[depth] = int(start)
            for level in _all(override, "lvl"):
                own = f"{which}/{number_id}"
                numbering.levels.setdefault(own, dict(numbering.levels.get(which, {})))
                numbering.levels[own][depth] = _read_level(level)
        own = f"{which}/{number_id}"
        numbering.lists[number_id] = own if own in numbering.levels else which
    return numbering


def read_styles(xml: bytes) -> dict[str, Style]:
    """Return the paragraph styles of word/styles.xml by id; ids are mere digits in Chinese Word."""
    raw = {
        _attribute(style, "styleId"): style for style in _all(ElementTree.fromstring(xml), "style")
    }
    return {style_id: _read_style(style_id, raw) for style_id in raw}


def _read_style(style_id: str, raw: dict[str, ElementTree.Element]) -> Style:
    name, number_id, depth, level, is_contents = "", "", 0, 0, False
    seen: set[str] = set()
    while style_id in raw and style_id not in seen:
        seen.add(style_id)
        style = raw[style_id]
        title = _value(style, "name")
        name = name or title
        properties = _child(style, "pPr")
        number = _child(properties, "numPr")
        if not number_id and number is not None and _value(number, "numId"):
            number_id, depth = _value(number, "numId"), int(_value(number, "ilvl") or 0)
        heading = _HEADING_NAME.fullmatch(title)
        outline = _value(properties, "outlineLvl")
        if not level and (heading or outline.isdigit()):
            level = int(heading[1]) if heading else (int(outline) + 1) % 10
            if heading and number is not None and not _value(number, "ilvl"):
                depth = level - 1
        is_contents = is_contents or bool(_CONTENTS_NAME.fullmatch(title))
        style_id = _value(style, "basedOn")
    return Style(name, number_id, depth, min(level, 6), is_contents)


def _read_level(level: ElementTree.Element) -> _Level:
    restart = _value(level, "lvlRestart")
    return _Level(
        int(_value(level, "start") or 1),
        _value(level, "numFmt") or "decimal",
        _value(level, "lvlText"),
        _value(level, "pStyle"),
        "" if _value(level, "suff") == "nothing" else " ",
        int(restart) if restart.isdigit() else None,
        _child(level, "isLgl") is not None,
    )


def _all(element: ElementTree.Element, tag: str) -> list[ElementTree.Element]:
    # Any namespace: that of strict documents is another one.
    return element.findall(f"{{*}}{tag}")


def _child(element: ElementTree.Element | None, tag: str) -> ElementTree.Element | None:
    return element.find(f"{{*}}{tag}") if element is not None else None


def _value(element: ElementTree.Element | None, tag: str) -> str:
    child = _child(element, tag)
    return _attribute(child, "val") if child is not None else ""


def _attribute(element: ElementTree.Element, name: str) -> str:
    return next((v for key, v in element.attrib.items() if key.rpartition("}")[2] == name), "")
