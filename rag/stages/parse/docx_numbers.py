"""Automatic heading numbers of Word. In: a .docx and its Markdown. Out: headings with numbers.

No parser writes 第三条 or 1.1 into the text, since Word computes them from numbering.xml; without
them the question what section 3.2 says finds nothing.
"""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_HEADING_NAME = re.compile(r"(?:heading|标题)\s*([1-6])", re.I)
_MARKDOWN = re.compile(r"^(#{1,6}) +(.*)$", re.M)
_DIGITS = "零一二三四五六七八九"


@dataclass(slots=True)
class _Level:
    start: int = 1
    form: str = "decimal"
    text: str = ""


@dataclass(slots=True)
class _Numbering:
    """Levels of each list, and how far each list has counted."""

    levels: dict[str, dict[int, _Level]] = field(default_factory=dict)
    counts: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))

    def next_label(self, number_id: str, depth: int) -> str:
        """Return the label of the next paragraph at ``depth`` of a list."""
        levels, counts = self.levels.get(number_id, {}), self.counts[number_id]
        if depth not in levels:
            return ""
        counts[depth] = counts.get(depth, levels[depth].start - 1) + 1
        for deeper in [d for d in counts if d > depth]:
            del counts[deeper]

        def of(match: re.Match[str]) -> str:
            at = int(match.group(1)) - 1
            level = levels.get(at, _Level())
            return _spell(counts.get(at, level.start), level.form)

        return re.sub(r"%(\d)", of, levels[depth].text).strip()


def number_headings(path: Path, markdown: str) -> str:
    """Return the Markdown with each numbered heading's label before its title."""
    try:
        labels = list(_labels(path))
    except (KeyError, ElementTree.ParseError, zipfile.BadZipFile, ValueError):
        return markdown
    at = 0

    def with_label(match: re.Match[str]) -> str:
        nonlocal at
        title = " ".join(match.group(2).split())
        for ahead in range(at, min(at + 5, len(labels))):
            label, text = labels[ahead]
            if text and text == title:
                at = ahead + 1
                return f"{match.group(1)} {label} {title}" if label else match.group()
        return match.group()

    return _MARKDOWN.sub(with_label, markdown)


def _labels(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of every heading paragraph, the label empty where it has none."""
    with zipfile.ZipFile(path) as bundle:
        if "word/numbering.xml" not in bundle.namelist():
            return
        numbering = _read_numbering(ElementTree.fromstring(bundle.read("word/numbering.xml")))
        styles = _heading_styles(ElementTree.fromstring(bundle.read("word/styles.xml")))
        with bundle.open("word/document.xml") as part:
            for _, element in ElementTree.iterparse(part):
                if element.tag != f"{_W}p":
                    continue
                properties = element.find(f"{_W}pPr")
                own = _number_of(properties)
                style = _value(properties, "pStyle")
                if style in styles:
                    number_id, depth = own if own[0] else styles[style]
                    text = " ".join("".join(t.text or "" for t in element.iter(f"{_W}t")).split())
                    yield numbering.next_label(number_id, depth) if number_id else "", text
                element.clear()


def _heading_styles(root: ElementTree.Element) -> dict[str, tuple[str, int]]:
    """Return list and depth of each heading style by its id; ids are mere digits in Chinese Word."""
    found = {}
    for style in root.iter(f"{_W}style"):
        match = _HEADING_NAME.fullmatch(_value(style, "name"))
        if match:
            number_id, depth = _number_of(style.find(f"{_W}pPr"))
            depth = depth or int(match.group(1)) - 1
            found[style.get(f"{_W}styleId", "")] = (number_id, depth)
    return found


def _read_numbering(root: ElementTree.Element) -> _Numbering:
    abstract: dict[str, dict[int, _Level]] = {}
    for item in root.iter(f"{_W}abstractNum"):
        levels = {
            int(level.get(f"{_W}ilvl", "0")): _Level(
                int(_value(level, "start") or 1), _value(level, "numFmt"), _value(level, "lvlText")
            )
            for level in item.iter(f"{_W}lvl")
        }
        abstract[item.get(f"{_W}abstractNumId", "")] = levels
    numbering = _Numbering()
    for item in root.iter(f"{_W}num"):
        known = abstract.get(_value(item, "abstractNumId"), {})
        numbering.levels[item.get(f"{_W}numId", "")] = known
    return numbering


def _number_of(properties: ElementTree.Element | None) -> tuple[str, int]:
    number = properties.find(f"{_W}numPr") if properties is not None else None
    return _value(number, "numId"), int(_value(number, "ilvl") or 0)


def _value(element: ElementTree.Element | None, tag: str) -> str:
    child = element.find(f"{_W}{tag}") if element is not None else None
    return child.get(f"{_W}val", "") if child is not None else ""


def _spell(number: int, form: str) -> str:
    if form in (
        "chineseCounting",
        "chineseCountingThousand",
        "taiwaneseCountingThousand",
        "ideographDigital",
    ):
        return _chinese(number)
    if form in ("upperLetter", "lowerLetter"):
        letter = chr(ord("A") + (number - 1) % 26) * ((number - 1) // 26 + 1)
        return letter if form == "upperLetter" else letter.lower()
    if form in ("upperRoman", "lowerRoman"):
        roman = _roman(number)
        return roman if form == "upperRoman" else roman.lower()
    return "" if form in ("bullet", "none") else str(number)


def _chinese(number: int) -> str:
    if number >= 100:
        hundreds, rest = divmod(number, 100)
        between = "零" if 0 < rest < 10 else ""
        tail = ("一" if 10 <= rest < 20 else "") + _chinese(rest) if rest else ""
        return f"{_DIGITS[hundreds % 10]}百{between}{tail}"
    tens, ones = divmod(number, 10)
    head = ("" if tens == 1 else _DIGITS[tens]) + "十" if tens else ""
    return head + (_DIGITS[ones] if ones or not tens else "")


def _roman(number: int) -> str:
    steps = ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"),
             (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))  # fmt: skip
    out = ""
    for value, letters in steps:
        out += letters * (number // value)
        number %= value
    return out
