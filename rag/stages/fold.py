"""Text as it is compared, with the way back. In: text. Out: folded text and original positions.

Width, case, white space, look-alike punctuation, ligatures, Kangxi radicals and hyphens at line
ends make no difference to a quote; every letter, digit, sign and word order does.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

_HYPHEN_BREAK = re.compile(r"(?<=\w)[-\u00ad\u2010]\s*\n\s*(?=\w)")
_LOOKALIKES = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»「」『』〝〞＂", '"'), **dict.fromkeys("‘’‚‛′`´＇", "'"),
        **dict.fromkeys("‐‑‒–—―−－﹣─", "-"), **dict.fromkeys("，、﹐﹑", ","), **dict.fromkeys("。．｡", "."),
        **dict.fromkeys("…⋯", "..."), **dict.fromkeys("；﹔", ";"), **dict.fromkeys("：﹕", ":"),
        **dict.fromkeys("！﹗", "!"), **dict.fromkeys("？﹖", "?"), **dict.fromkeys("（〔【［", "("),
        **dict.fromkeys("）〕】］", ")"), **dict.fromkeys("《〈", "<"), **dict.fromkeys("》〉", ">"),
        **dict.fromkeys("·•‧・", "·"), **dict.fromkeys("～〜", "~"),
    }
)  # fmt: skip
_INVISIBLE = frozenset("\u00ad\u200b\u200c\u200d\u2060\ufeff*")


@dataclass(frozen=True, slots=True)
class Folded:
    """``text`` for comparing; ``starts[i]`` and ``ends[i]`` bound its i-th origin."""

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where ``text[start:end]`` lies in the original."""
        return self.starts[start], self.ends[end - 1]


def fold_quote(text: str) -> Folded:
    """Return ``text`` folded for the comparison of quotes."""
    dropped = set()
    for match in _HYPHEN_BREAK.finditer(text):
        dropped.update(range(match.start(), match.end()))
    out: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for position, character in enumerate(text):
        if position in dropped:
            continue
        folded = _fold_character(character)
        out.append(folded)
        starts.extend([position] * len(folded))
        ends.extend([position + 1] * len(folded))
    return Folded("".join(out), tuple(starts), tuple(ends))


@lru_cache(maxsize=16384)
def _fold_character(character: str) -> str:
    if character in _INVISIBLE or character.isspace():
        return ""
    known = character.translate(_LOOKALIKES)
    if known != character:
        return known
    wide = unicodedata.normalize("NFKC", character)
    return "".join(wide.split()).translate(_LOOKALIKES).casefold()
