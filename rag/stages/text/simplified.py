"""Simplified Chinese: the form in which texts and questions are embedded and cut into terms.

By whole words, so that 乾隆 keeps its character; a text may change its length. Quotes are compared
character by character instead, see ``to_simplified`` of ``rag.stages.text.normalize``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

TABLE = "hk2s"
"""OpenCC's table: all of ``t2s``, and the forms of Hong Kong. Simplified text stays as it is."""
EMBEDDED_FORM = f"{TABLE}-1"
"""Goes up whenever ``embedded_text`` returns another text."""

_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# What OpenCC cannot take, and what it takes for the end of a text.
_UNTAKEN = re.compile("([\ud800-\udfff\0]+)")
_SENTENCES = re.compile(r"[^。．！？!?\n]*[。．！？!?\n]*")
# Kana and Hangul; the dot and the long mark stand in Chinese names too.
_KANA_OR_HANGUL = (
    r"\u3041-\u3096\u30a1-\u30fa\u31f0-\u31ff\uff66-\uff6f\uff71-\uff9d\u1100-\u11ff\uac00-\ud7af"
)
_CHINESE_ENCODINGS = ("gb2312", "big5")


def simplify_chinese(text: str) -> str:
    """Return ``text`` with its traditional characters simplified, also in Japanese."""
    if text.isascii() or not _HAN.search(text):
        return text
    return _converted(text)


def embedded_text(text: str) -> str:
    """Return ``text`` as models see it: Chinese sentences simplified, Japanese and Korean ones not.

    A text that has most of its Han characters in such sentences stays whole, headings and all.
    """
    if text.isascii() or not _HAN.search(text):
        return text
    foreign = _foreign()
    if not foreign.search(text):
        return simplify_chinese(text)
    parts = [(part, bool(foreign.search(part))) for part in _SENTENCES.findall(text)]
    n_foreign = sum(len(_HAN.findall(part)) for part, is_foreign in parts if is_foreign)
    if 2 * n_foreign >= len(_HAN.findall(text)):
        return text
    return "".join(part if is_foreign else simplify_chinese(part) for part, is_foreign in parts)


def to_traditional(text: str) -> str:
    """Return a text in traditional characters, as OpenCC chooses them."""
    return _converted(text, "s2t") if _HAN.search(text) else text


def written_forms(text: str) -> tuple[str, ...]:
    """Return the forms in which a name may be written: as it is, simplified, and traditional."""
    if text.isascii() or not _HAN.search(text):
        return (text,)
    simplified = simplify_chinese(text)
    others = (_converted(simplified, table) for table in ("s2t", "s2tw", "s2hk"))
    return tuple(dict.fromkeys((text, simplified, *others)))


def _converted(text: str, table: str = TABLE) -> str:
    parts = enumerate(_UNTAKEN.split(text))
    return "".join(part if at % 2 else _converter(table)(part) for at, part in parts)


@cache
def _converter(table: str) -> Callable[[str], str]:
    # Not imported with every command: few of them see Chinese.
    import opencc

    convert: Callable[[str], str] = opencc.OpenCC(table).convert
    return convert


@cache
def _foreign() -> re.Pattern[str]:
    """Return what tells Japanese and Korean: their own signs, and characters that Japan alone has.

    Those are OpenCC's Japanese forms that neither of the old Chinese character sets knows.
    """
    import opencc  # see _converter

    han = [chr(code) for code in range(0x4E00, 0xA000)]
    older = opencc.OpenCC("jp2t").convert("\n".join(han)).split("\n")
    plain = opencc.OpenCC(TABLE).convert("\n".join(han)).split("\n")
    japanese = [
        one
        for one, old, new in zip(han, older, plain, strict=True)
        if one != old and one == new and not _is_chinese(one)
    ]
    return re.compile(f"[{_KANA_OR_HANGUL}{''.join(japanese)}]")


def _is_chinese(character: str) -> bool:
    for encoding in _CHINESE_ENCODINGS:
        try:
            character.encode(encoding)
        except UnicodeEncodeError:
            continue
        return True
    return False
