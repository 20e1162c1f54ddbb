"""Change tracking of Word 97 ([MS-DOC]): whether text was deleted and is still in the file."""

from __future__ import annotations

import struct
from itertools import pairwise

from rag.stages.detect.sniff import read_ole_stream

# Properties of characters stand in pages of this size ([MS-DOC] 2.9.33, ChpxFkp).
_PAGE = 512
_MARK_DELETED = 0x0800
# Bytes of an operand by the kind of its property ([MS-DOC] 2.2.5.1); -1: the first byte says it.
_OPERANDS = (1, 1, 2, 4, 2, 2, -1, 3)


def has_deletions(data: bytes) -> bool:
    """Return whether a run of the document is marked as deleted; False for what is unreadable."""
    try:
        stream = read_ole_stream(data, "WordDocument")
    except (struct.error, ValueError, IndexError):
        return False
    starts = range(_PAGE, len(stream) - _PAGE + 1, _PAGE)
    return any(_has_deleted_run(stream[start : start + _PAGE]) for start in starts)


def _has_deleted_run(page: bytes) -> bool:
    n_runs = page[-1]
    if not 0 < n_runs <= 101:
        return False
    places = struct.unpack_from(f"<{n_runs + 1}I", page)
    if any(a >= b for a, b in pairwise(places)):
        return False
    offsets = page[4 * (n_runs + 1) : 5 * n_runs + 4]
    return any(_is_deleted(page, 2 * offset) for offset in offsets if offset)


def _is_deleted(page: bytes, start: int) -> bool:
    at, end = start + 1, min(start + 1 + page[start], _PAGE - 1)
    while at + 3 <= end:
        (which,) = struct.unpack_from("<H", page, at)
        size = _OPERANDS[which >> 13]
        if which == _MARK_DELETED:
            return page[at + 2] != 0
        at += 2 + (size if size > 0 else 1 + page[at + 2])
    return False
