"""Text as it is compared, with the way back. In: text. Out: folded text and original positions.

Width, case, white space, look-alike punctuation, ligatures, Kangxi radicals and hyphens inside
words make no difference to a quote; every letter, digit, sign and word order does.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

_DROP = "\u200b"
_GAP = "\x1f"
_INVISIBLE = frozenset("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufe0e\ufe0f\ufeff`")
_LOOKALIKES = {
    look: plain
    for plain, looks in {
        # A quote inside a quote changes its marks, so single and double ones are the same.
        "'": "\"“”„‟«»「」『』〝〞＂‘’‚‛′´＇", "-": "‐‑‒–—―−－﹣─", ",": "，、﹐﹑", ".": "。．｡",
        "...": "…⋯", ";": "；﹔", ":": "：﹕", "!": "！﹗", "?": "？﹖",
        "(": "（〔【［[", ")": "）〕】］]", "<": "《〈", ">": "》〉", "·": "•‧・", "~": "～〜",
    }.items()
    for look in looks
}  # fmt: skip
# NFKD knows the Kangxi radicals but hardly any of their simplified and older forms.
_RADICALS = dict(
    zip(
        "⺟⺠⻁⻄⻅⻆⻉⻋⻑⻓⻔⻗⻘⻙⻚⻛⻜⻝⻢⻣⻤⻥⻦⻧⻨⻩⻬⻭⻮⻰⻱⻳⼾戶戸",
        "母民虎西见角贝车長长门雨青韦页风飞食马骨鬼鱼鸟卤麦黄齐歯齿龙龜龟户户户",
        strict=True,
    )
)
_SAME = {**_LOOKALIKES, **_RADICALS, _GAP: " "}
# Ligatures and full-width letters lie far behind the other Latin ones.
_LATIN = "[^\\W\\d_\u0e00-\ufaff\ufb07-\uff20\uff3b-\uff40\uff5b-\U0010ffff]"
# What is behind a digit is looked at last: patterns that start with their rare sign are fast.
_CONTEXT: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    # A hyphen between parts of a word comes and goes with the line ends.
    (re.compile(rf"[-\u00ad‐‑‒–—−](?<={_LATIN}{_LATIN}.)\s*(?={_LATIN}{{2}})"),
     lambda match: _DROP * len(match.group())),
    (re.compile(rf"[-‐](?<={_LATIN}.)\s*\n\s*(?=[a-zà-ÿ])"),
     lambda match: _DROP * len(match.group())),
    # Ellipses and long dashes are written with one sign or with several.
    (re.compile(r"[.…⋯]{2,}"), lambda match: _run(match.group(), "…", match.group() != "..")),
    (re.compile(r"[-–—―─]{2,}"), lambda match: _run(match.group(), "-")),
    # Without the gap "1 5" were 15, without the sign 2*3 were 23, and 10² were 102.
    (re.compile(r"\d\s+(?=\d)"),
     lambda match: match.group()[0] + _run(match.group()[1:], _GAP)),
    (re.compile(r"\*(?!(?<=\d.)\s*\d)"), lambda match: _DROP),
    (re.compile(r"[²³¹⁰⁴-⁹₀-₉](?<=\d.)"), lambda match: chr(0xE100 + ord(match.group()) % 0x100)),
)  # fmt: skip
_PIECE = 64


@dataclass(frozen=True, slots=True)
class Folded:
    """``text`` for comparing, and what it was folded from."""

    text: str
    original: str
    _prepared: str
    _offsets: tuple[int, ...]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where ``text[start:end]``, which is not empty, lies in the original."""
        return self._origin(start), self._origin(end - 1) + 1

    def _origin(self, position: int) -> int:
        piece = bisect_right(self._offsets, position) - 1
        begin = piece * _PIECE
        prepared = self._prepared[begin : begin + _PIECE]
        table = _table(prepared)
        lengths = (len(table[ord(c)]) for c in prepared)
        before = list(accumulate(lengths, initial=self._offsets[piece]))
        return begin + bisect_right(before, position) - 1


# Every character met so far; the limit is for texts that hold all of Unicode.
_TABLE: dict[int, str] = {}
_MAX_TABLE = 65536


def fold_quote(text: str) -> Folded:
    """Return ``text`` folded for the comparison of quotes."""
    prepared = text
    for pattern, replacement in _CONTEXT:
        prepared = pattern.sub(replacement, prepared)
    table = _table(prepared)
    pieces = [
        prepared[start : start + _PIECE].translate(table)
        for start in range(0, len(prepared), _PIECE)
    ]
    offsets = tuple(accumulate(map(len, pieces), initial=0))
    return Folded("".join(pieces), text, prepared, offsets)


def _run(signs: str, sign: str, is_one: bool = True) -> str:
    """Return as many characters as ``signs`` that are folded like one ``sign``."""
    return sign + _DROP * (len(signs) - 1) if is_one else signs


def _table(text: str) -> dict[int, str]:
    """Return a table with every character of ``text``; a plain dict translates fastest."""
    fresh = {n: _fold_character(chr(n)) for n in set(map(ord, set(text))).difference(_TABLE)}
    if len(_TABLE) + len(fresh) > _MAX_TABLE:
        return {**_TABLE, **fresh}
    _TABLE.update(fresh)
    return _TABLE


def _fold_character(character: str) -> str:
    if character in _SAME:
        return _SAME[character]
    if character in _INVISIBLE or character.isspace():
        return ""
    plain = unicodedata.normalize("NFKD", character)
    return "".join(_SAME.get(c, c) for c in plain if not c.isspace()).casefold()
