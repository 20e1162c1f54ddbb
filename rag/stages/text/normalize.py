"""Text normalization for comparing quotes, with a map back to the original positions.

Width, case, white space, look-alike punctuation, ligatures, Kangxi radicals, traditional forms,
marks of emphasis and hyphens inside words make no difference to a quote; every letter, digit, sign
and word order does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from rag.stages.text.simplified import TABLE

# What neither a database nor XML can hold, escaped or not.
_UNSTORABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_DROP = "\u200b"
_HAN_RANGES = ((0x3400, 0x4DC0), (0x4E00, 0xA000))
# Private characters, so that no fold of anything else looks like them.
_GAP = "\ue0ff"
_BORDER = "\ue0fe"
_SHORT = 400
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufe0e\ufe0f\ufeff`"
_LOOKALIKES = {
    look: plain
    for plain, looks in {
        # A quote inside a quote changes its marks, so single and double ones are the same.
        "'": '"“”„‟«»「」『』〝〞＂‘’‚‛′´＇',
        "-": "‐‑‒–—―−－﹣─",
        ",": "，、﹐﹑",
        ".": "。．｡",
        "...": "…⋯",
        ";": "；﹔",
        ":": "：﹕",
        "!": "！﹗",
        "?": "？﹖",
        "(": "（〔【［[",
        ")": "）〕】］]",
        "<": "《〈",
        ">": "》〉",
        "·": "•‧・",
        "~": "～〜",
    }.items()
    for look in looks
}
# NFKD knows the Kangxi radicals but hardly any of their simplified and older forms.
_RADICALS = dict(
    zip(
        "⺟⺠⻁⻄⻅⻆⻉⻋⻑⻓⻔⻗⻘⻙⻚⻛⻜⻝⻢⻣⻤⻥⻦⻧⻨⻩⻬⻭⻮⻰⻱⻳⼾戶戸",
        "母民虎西见角贝车長长门雨青韦页风飞食马骨鬼鱼鸟卤麦黄齐歯齿龙龜龟户户户",
        strict=True,
    )
)
_SAME = {**_LOOKALIKES, **_RADICALS, _GAP: " "}
# Only what decomposition leaves is still to be replaced.
_PLAIN = tuple(
    (look, plain)
    for look, plain in _SAME.items()
    if unicodedata.normalize("NFKD", look).casefold() == look
)
# Ligatures and full-width letters lie far behind the other Latin ones.
_LATIN = "[^\\W\\d_\u0e00-\ufaff\ufb07-\uff20\uff3b-\uff40\uff5b-\U0010ffff]"
# The digits of the scripts that may stand here; a class is searched faster than a category.
_DIGITS, _RAISED = "0-9０-９٠-٩۰-۹०-९๐-๙", "²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉"
_HYPHENS, _DASHES = "-\u00ad‐‑‒–—−－﹣", "–—―─"
# A pattern is tried where a trigger of its occurs, and starts with its rare sign: for speed.
_CONTEXT: tuple[tuple[tuple[str, ...], re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    # A hyphen between parts of a word comes and goes with the line ends.
    (
        tuple(_HYPHENS),
        re.compile(rf"[{_HYPHENS}](?<={_LATIN}{_LATIN}.)\s*(?={_LATIN}{{2}})"),
        lambda match: _DROP * len(match.group()),
    ),
    (
        ("-\n", "- ", "-\r", "-\t", "‐"),
        re.compile(rf"[-‐](?<={_LATIN}.)\s*\n\s*(?=[a-zà-ÿ])"),
        lambda match: _DROP * len(match.group()),
    ),
    # Ellipses and long dashes are written with one sign or with several.
    (
        ("..", "．．", "…", "⋯"),
        re.compile(r"[.．…⋯](?=[.．…⋯])[.．…⋯]+"),
        lambda match: _run(match.group(), "…", match.group() not in ("..", "．．")),
    ),
    (
        ("--", *_DASHES),
        re.compile(r"[-–—―─](?=[-–—―─])[-–—―─]+"),
        lambda match: _run(match.group(), "-"),
    ),
    # Without the gap "1 5" were 15, without the sign 2*3 were 23, and 10² were 102.
    (
        ("",),
        re.compile(rf"[{_DIGITS}](?=\s)\s+(?=\d)"),
        lambda match: match[0][0] + _run(match[0][1:], _GAP),
    ),
    # A bar within a cell of a table is written with a sign before it.
    (("\\|",), re.compile(r"\\\|"), lambda match: f"{_DROP}|"),
    (("*",), re.compile(r"\*(?!(?<=\d.)\s*\d)"), lambda match: _DROP),
    # Emphasis stands in pairs around words; within a name an underscore belongs to it.
    (
        ("_",),
        re.compile(
            r"(?<![A-Za-z0-9_])(?P<mark>_{1,3})(?P<words>[^\W_](?:[^_\ue0fe]{0,300}[^\s_\ue0fe])?)"
            r"(?P=mark)(?![A-Za-z0-9_])"
        ),
        lambda match: f"{_DROP * len(match['mark'])}{match['words']}{_DROP * len(match['mark'])}",
    ),
    (
        tuple(_RAISED),
        re.compile(rf"[{_RAISED}](?<=\d.)"),
        lambda match: chr(0xE100 + ord(match.group()) % 0x100),
    ),
)


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """``text`` for comparing, and what it was folded from."""

    text: str
    original: str
    _prepared: str
    _dropped: str

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where ``text[start:end]``, which is not empty, lies in the original."""
        first, before = self._origin(start, 0, 0, len(self._prepared))
        # The end is near: most of the text need not be measured again.
        near = min(len(self._prepared), first + 2 * (end - start) + 64)
        if before + self._length(first, near) < end:
            near = len(self._prepared)
        return first, self._origin(end - 1, first, before, near)[0] + 1

    def _origin(self, position: int, low: int, before: int, high: int) -> tuple[int, int]:
        """Return which character gave ``text[position]``, and how long all before it are folded.

        Lengths add up, so that halving finds it without a table of all positions.
        """
        while high - low > 1:
            middle = (low + high) // 2
            length = self._length(low, middle)
            if before + length > position:
                high = middle
            else:
                low, before = middle, before + length
        return low, before

    def _length(self, start: int, end: int) -> int:
        """Return how long a part of the prepared text is when it is folded."""
        plain = _decomposed(self._prepared[start:end])
        n_dropped = sum(map(plain.count, self._dropped)) if self._dropped else 0
        return len(plain) - n_dropped + 2 * plain.count("⋯")


def normalize_quote(text: str) -> NormalizedText:
    """Return ``text`` folded for the comparison of quotes."""
    return NormalizedText(*_fold(text))


def normalize_quotes(texts: Sequence[str]) -> list[NormalizedText]:
    """Return each text folded, as ``normalize_quote`` does, many at the price of one long one."""
    joined = _BORDER.join(texts)
    if joined.count(_BORDER) != len(texts) - 1:
        return [normalize_quote(text) for text in texts]
    folded, _, prepared, dropped = _fold(joined)
    parts = zip(folded.split(_BORDER), texts, prepared.split(_BORDER), strict=True)
    return [NormalizedText(*part, dropped) for part in parts]


def _fold(text: str) -> tuple[str, str, str, str]:
    prepared = text
    for triggers, pattern, replacement in _CONTEXT:
        # In a short text the pattern itself is the fastest look.
        if len(text) < _SHORT or any(trigger in prepared for trigger in triggers):
            prepared = pattern.sub(replacement, prepared)
    folded = _decomposed(prepared)
    dropped = _invisible_in(folded)
    for character in dropped:
        folded = folded.replace(character, "")
    for character, plain in _PLAIN:
        if character in folded:
            folded = folded.replace(character, plain)
    return to_simplified(folded), text, prepared, dropped


def to_simplified(text: str) -> str:
    """Return ``text`` with a simplified character for each traditional one: as long as before.

    Characters outside the Basic Multilingual Plane stay.
    """
    if text.isascii():
        return text
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16)
    plain = _simplified()[units].tobytes()
    return plain.decode("utf-16-le", "surrogatepass")


@cache
def _simplified() -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    # Not imported with every command: few of them compare texts.
    import opencc

    han = [chr(code) for first, end in _HAN_RANGES for code in range(first, end)]
    table = np.arange(0x10000, dtype=np.uint16)
    for one, plain in zip(
        han, opencc.OpenCC(TABLE).convert("\n".join(han)).split("\n"), strict=True
    ):
        if len(plain) == 1 and plain <= "\uffff":
            table[ord(one)] = ord(plain)
    for look, plain in _RADICALS.items():
        table[ord(look)] = ord(plain)
    # Some stand for a character that has a simplified one itself.
    return table[table]


def fold_letters(text: str) -> str:
    """Return a text's letters and digits folded, as ``normalize_quote`` does in twelve times as
    long; its signs and the hyphens in its words are not.
    """
    folded = _decomposed(text)
    for character in _invisible_in(folded):
        folded = folded.replace(character, "")
    return to_simplified(folded)


def _invisible_in(folded: str) -> str:
    return "".join([character for character in _INVISIBLE if character in folded])


def _decomposed(text: str) -> str:
    # The accent that stands alone would be taken apart into a space and itself.
    plain = unicodedata.normalize("NFKD", text.replace("´", "'")).casefold()
    # Blanks first: most white space is gone before the words are parted for the rest.
    return "".join(plain.replace(" ", "").split())


def _run(signs: str, sign: str, is_one: bool = True) -> str:
    """Return as many characters as ``signs`` that are folded like one ``sign``."""
    return sign + _DROP * (len(signs) - 1) if is_one else signs


def storable_text(text: str) -> str:
    """Return a text without what neither a database nor XML can hold."""
    return _UNSTORABLE.sub("", text)


def occurrences(text: str, part: str) -> Iterator[int]:
    """Yield where ``part`` begins in ``text``, overlapping ones too; nothing for an empty part."""
    at = text.find(part) if part else -1
    while at >= 0:
        yield at
        at = text.find(part, at + 1)
