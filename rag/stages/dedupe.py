"""Hits that say the same twice. In: hits, best first. Out: one of each, and how many were dropped.

Near duplicates are told by shingles (Broder 1997): runs of five folded characters. Texts that
differ in a figure, a code or a negation say something else, however alike they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from itertools import islice

from rag.core.hits import Hit
from rag.stages.fold import fold_quote

SIZE = 5
MIN_SHARED = 0.9
_TELLING = re.compile(
    r"[a-z]*[0-9][a-z0-9]*(?:[-./][a-z0-9]+)*|[不未没無无非否勿禁莫〇零一二三四五六七八九十百千万两]"
    r"|\b(?:not?|never|none|nor|without|cannot|neither|except|unless|only)\b|n['’]t\b"
)


def drop_duplicates(hits: Sequence[Hit]) -> tuple[list[Hit], int]:
    """Return the first hit of every text, in order, and the number of the others.

    The same text after folding (width, case, punctuation, white space), or at least 90 % of the
    shingles in common, with the same figures, codes and negations in the same order.
    """
    kept: list[Hit] = []
    known: list[_Text] = []
    for hit in hits:
        text = _Text(hit.text)
        if not any(text.is_same(other) for other in known):
            kept.append(hit)
            known.append(text)
    return kept, len(hits) - len(kept)


class _Text:
    def __init__(self, text: str) -> None:
        self.folded = fold_quote(text).text
        self.telling = _TELLING.findall(unicodedata.normalize("NFKC", text).casefold())

    @cached_property
    def shingles(self) -> frozenset[str]:
        text = self.folded
        # A comprehension: a generator takes twice as long.
        return frozenset([text[at : at + SIZE] for at in range(max(1, len(text) - SIZE + 1))])

    def is_same(self, other: _Text) -> bool:
        if self.folded == other.folded:
            return True
        if self.telling != other.telling:
            return False
        n, m = len(self.shingles), len(other.shingles)
        # So few in common at most that the rest need not be looked at.
        if min(n, m) < MIN_SHARED * max(n, m):
            return False
        some = list(islice(self.shingles, n // 5 + 1))
        n_missing = len(some) - sum(map(other.shingles.__contains__, some))
        if n_missing > (1 - MIN_SHARED) * n + 1:
            return False
        n_shared = len(self.shingles & other.shingles)
        return n_shared >= MIN_SHARED * (n + m - n_shared)
