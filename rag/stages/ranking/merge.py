"""Neighbour merging: adjacent chunks of a file become one longer hit.

The invariant of chunks holds for what is made: ``canonical[char_start:char_end] == text``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile

from rag.core.hits import Hit

# Between chunks that follow each other lies white space, if anything.
MAX_GAP = 16
# A chunk is shown whole up to so many tokens; what is merged should be, too.
MAX_TOKENS = 500

Read = Callable[[int, int, int], str]
"""Gives ``canonical[start:end]`` of a file, an empty text when it is gone."""


def merge_neighbours(hits: Sequence[Hit], read: Read) -> tuple[list[Hit], int]:
    """Return hits in order of their best part, and how many went into others.

    Merged are chunks of one file that overlap, touch, or have only white space between them, up
    to 500 tokens. ``data["chunks"]`` of a merged hit names its parts, which citations pin. Chunks
    that were edited are no part of the canonical text any more and stay alone.
    """
    groups: dict[tuple[int | None, int | None], list[Hit]] = {}
    alone: list[Hit] = []
    for hit in hits:
        if _is_mergeable(hit):
            groups.setdefault((hit.store_id, hit.file_id), []).append(hit)
        else:
            alone.append(hit)
    made = list(alone)
    for members in groups.values():
        made += _merged(sorted(members, key=lambda hit: (hit.char_start, hit.char_end)), read)
    order = {id(hit): place for place, hit in enumerate(hits)}
    made.sort(key=lambda hit: (hit.rank, order.get(id(hit), 0)))
    return made, len(hits) - len(made)


def _is_mergeable(hit: Hit) -> bool:
    is_span = hit.char_end - hit.char_start == len(hit.text) and hit.text != ""
    return hit.chunk_id is not None and hit.file_id is not None and hit.revision == 1 and is_span


def _merged(members: Sequence[Hit], read: Read) -> list[Hit]:
    made: list[Hit] = []
    for hit in members:
        joined = _join(made[-1], hit, read) if made else None
        if joined is None:
            made.append(hit)
        else:
            made[-1] = joined
    return made


def _join(left: Hit, right: Hit, read: Read) -> Hit | None:
    """Return both as one hit, None where they may not be one."""
    gap = right.char_start - left.char_end
    if gap > MAX_GAP or left.token_count + right.token_count > MAX_TOKENS:
        return None
    end = max(left.char_end, right.char_end)
    if gap > 0:
        text = read(left.file_id or 0, left.char_start, end)
    else:
        text = left.text + right.text[-gap:] if right.char_end > left.char_end else left.text
    at = right.char_start - left.char_start
    # A text that was indexed anew meanwhile does not fit its old chunks.
    is_whole = len(text) == end - left.char_start and text.startswith(left.text)
    if not is_whole or not text.startswith(right.text, at):
        return None
    if gap > 0 and text[len(left.text) : at].strip():
        return None
    best, other = (left, right) if left.rank <= right.rank else (right, left)
    return replace(
        best,
        text=text,
        char_start=left.char_start,
        char_end=end,
        page_first=left.page_first,
        page_last=right.page_last or left.page_last,
        heading_path=_common(left.heading_path, right.heading_path),
        token_count=left.token_count + right.token_count,
        matched_terms=tuple(sorted({*best.matched_terms, *other.matched_terms})),
        data={"chunks": [*_parts(left), *_parts(right)]},
    )


def _common(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False))
    return tuple(heading for heading, _ in pairs)


def _parts(hit: Hit) -> list[dict[str, int | None]]:
    if hit.data and "chunks" in hit.data:
        return list(hit.data["chunks"])
    return [
        {
            "chunk_id": hit.chunk_id,
            "revision": hit.revision,
            "char_start": hit.char_start,
            "char_end": hit.char_end,
        }
    ]
