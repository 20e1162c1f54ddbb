"""Where sentences end, in Chinese and English. In: text. Out: positions in code points."""

from __future__ import annotations

import re
from collections.abc import Iterator

_CLOSING = "”’」』）》】〉\"')\\]"
_END = re.compile(
    rf"[。！？；…]+[{_CLOSING}]*\s*"
    rf"|[.!?;]+[{_CLOSING}]*(?=\s|$)\n*"
    r"|\n+|\f"
)
# A point after these ends no sentence.
_SHORT = re.compile(
    r"(?:\b(?:Dr|Mr|Mrs|Ms|Prof|No|Fig|Eq|vs|etc|e\.g|i\.e|approx|St|Vol|pp?)|\b[A-Z])\.$"
)


def sentence_ends(text: str, start: int = 0, end: int | None = None) -> Iterator[int]:
    """Yield the end of each sentence in ``text[start:end]``, in order; the last one is ``end``.

    Sentences touch: each starts where the one before ends, white space included.
    """
    end = len(text) if end is None else end
    last = start
    for match in _END.finditer(text, start, end):
        if match.group()[0] == "." and _SHORT.search(
            text, max(start, match.start() - 8), match.start() + 1
        ):
            continue
        last = match.end()
        yield last
    if last < end:
        yield end
