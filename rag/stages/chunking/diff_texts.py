"""Text diff by words: runs that stayed, were removed or were added, in order.

Words are compared, not characters: runs of letters and digits, single characters of scripts that
write no blanks (Chinese, Japanese, Korean, Thai), white space, and every other sign by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

# The scripts without blanks; an ideograph counts as a letter for \w too, hence the order.
_ALONE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_ALONE}]|[^\W{_ALONE}]+|\s+|.", re.DOTALL)
# Comparing takes the square of what differs; beyond that whole lines are told apart.
MAX_WORDS = 6000
# So few characters between two replacements are chance.
LITTLE = 2


@dataclass(frozen=True, slots=True)
class DiffRun:
    """A piece of text that is in both texts, only in the old one, or only in the new one."""

    kind: Literal["same", "gone", "new"]
    text: str


def diff_texts(old: str, new: str) -> tuple[DiffRun, ...]:
    """Return runs: all but the new ones make ``old`` again, all but the gone ones ``new``.

    What went stands before what came in its place. Source of the matching: Ratcliff and Metzener,
    Pattern Matching: The Gestalt Approach, 1988, as difflib has it.
    """
    before, after = _WORD.findall(old), _WORD.findall(new)
    if len(before) + len(after) > MAX_WORDS:
        before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    return tuple(_joined(_runs(before, after)))


def _runs(before: list[str], after: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield what stood, what stands, and whether that is the same."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        yield "".join(before[first:last]), "".join(after[start:end]), tag == "equal"


def _joined(runs: Iterator[tuple[str, str, bool]]) -> Iterator[DiffRun]:
    """Put changes together: the little that two of them leave between them is part of both."""
    gone = new = blank = ""
    for old, now, is_same in runs:
        if not is_same:
            gone, new, blank = gone + blank + old, new + blank + now, ""
        elif (gone or new) and not blank and len(now.strip()) <= (LITTLE if gone and new else 0):
            blank = now
        else:
            yield from _told(gone, new, blank + now)
            gone = new = blank = ""
    yield from _told(gone, new, blank)


def _told(gone: str, new: str, same: str) -> Iterator[DiffRun]:
    yield from (DiffRun("gone", gone),) if gone else ()
    yield from (DiffRun("new", new),) if new else ()
    yield from (DiffRun("same", same),) if same else ()
