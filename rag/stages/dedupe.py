"""Hits that say the same twice. In: hits, best first. Out: one of each, and how many were dropped.

Near duplicates are told by shingles (Broder 1997): runs of five folded characters. Texts that
differ in a figure, a code or a negation say something else, however alike they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

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
    known: list[tuple[str, tuple[str, ...], frozenset[str]]] = []
    for hit in hits:
        folded = fold_quote(hit.text).text
        plain = unicodedata.normalize("NFKC", hit.text).casefold()
        telling = tuple(_TELLING.findall(plain))
        shingles = frozenset(folded[i : i + SIZE] for i in range(max(1, len(folded) - SIZE + 1)))
        if not any(_is_same(folded, telling, shingles, other) for other in known):
            kept.append(hit)
            known.append((folded, telling, shingles))
    return kept, len(hits) - len(kept)


def _is_same(
    folded: str,
    telling: tuple[str, ...],
    shingles: frozenset[str],
    other: tuple[str, tuple[str, ...], frozenset[str]],
) -> bool:
    if folded == other[0]:
        return True
    n, m = len(shingles), len(other[2])
    # So few in common at most that the rest need not be looked at.
    if telling != other[1] or min(n, m) < MIN_SHARED * max(n, m):
        return False
    n_shared = len(shingles & other[2])
    return n_shared >= MIN_SHARED * (n + m - n_shared)
