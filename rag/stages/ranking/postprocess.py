"""Hit postprocessing: near-duplicates go, neighbours merge, no file takes all places."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from math import ceil

from rag.core.hits import Hit
from rag.stages.text.normalize import fold_letters, normalize_quote
from rag.stages.text.terms import is_han

MAX_SHARE = 0.6
# A hit of another file takes a place when it has so much of the score of the one it displaces.
NEAR = 0.85
CROSS_TOP_K = 5


def diversify(hits: Sequence[Hit], top_k: int) -> list[Hit]:
    """Return the ``top_k`` best hits, numbered from 1, in the order in which they came.

    A file has at most 60 % of the places (two at least) while other files have hits whose scores
    come near; hits without a score or far behind never displace a better one.
    """
    limit = max(2, ceil(MAX_SHARE * top_k))
    files = [_file(hit) for hit in hits]
    chosen = list(range(min(top_k, len(hits))))
    n_of = Counter(files[: len(chosen)])
    waiting = list(range(len(chosen), len(hits)))
    for place in reversed(chosen.copy()):
        if n_of[files[place]] <= limit:
            continue
        better = next(
            (
                other
                for other in waiting
                if n_of[files[other]] < limit and _is_near(hits[other], hits[place])
            ),
            None,
        )
        if better is not None:
            waiting.remove(better)
            chosen.remove(place)
            chosen.append(better)
            n_of[files[place]] -= 1
            n_of[files[better]] += 1
    ranked = enumerate([hits[place] for place in sorted(chosen)], start=1)
    return [hit if hit.rank == rank else replace(hit, rank=rank) for rank, hit in ranked]


def widen_top_k(query: str, hits: Sequence[Hit], top_k: int) -> int:
    """Return ``top_k``, or 5 for less where one of the first five is in the other script.

    Across languages only the vectors order hits, and less sharply than words do: of the XQuAD
    questions asked in the other language 3 to 6 in a hundred have their answer at rank 4 or 5.
    """
    is_asked_in_han = is_han(query)
    # A hit by words alone has them in common with the query, whatever its language.
    is_mixed = any(
        hit.vector.score is not None and is_han(hit.text) != is_asked_in_han
        for hit in hits[top_k:CROSS_TOP_K]
    )
    return max(top_k, CROSS_TOP_K) if is_mixed else top_k


def _file(hit: Hit) -> tuple[str, int | None, str]:
    return hit.source, hit.store_id, hit.document_id or hit.file_name


def _is_near(hit: Hit, better: Hit) -> bool:
    if hit.score is None or better.score is None or better.score <= 0:
        return False
    return hit.score >= NEAR * better.score


SIZE = 5
MIN_SHARED = 0.9
# With fewer samples, all shingles are compared.
MIN_SAMPLES = 8
_SIGNS = "0-9不未没無无非否勿禁莫〇零一二三四五六七八九十百千万两"
# Found many times faster than the whole of what tells texts apart; mostly it is enough.
_SIGN = re.compile(f"[{_SIGNS}]")
_TELLING = re.compile(
    rf"[a-z]*[0-9][a-z0-9]*(?:[-./][a-z0-9]+)*|[{_SIGNS}]"
    r"|\b(?:not?|never|none|nor|without|cannot|neither|except|unless|only)\b|n['’]t\b"
)
# Five letters that begin with an eighth of the alphabet (in Latin c, k and s) or one of 1,024 Han:
# where texts are the same, so are these, whatever stands before.
_SAMPLE = re.compile(f"[{''.join(map(chr, range(ord('c'), 0x3200, 8)))}\u4e00-\u51ff]\\w{{4}}")


def drop_duplicates(hits: Sequence[Hit]) -> tuple[list[Hit], int]:
    """Return the first hit of every text, in order, and the number of the others.

    The same text after folding (width, case, punctuation, white space), or at least 90 % of the
    shingles in common, with the same figures, codes and negations in the same order.
    """
    kept: list[Hit] = []
    # Mostly the signs alone tell all apart.
    known: dict[tuple[str, ...], list[_Text]] = {}
    for hit in hits:
        text = _Text(hit.text)
        others = known.setdefault(tuple(_SIGN.findall(text.letters)), [])
        if not others or not any(text.is_same(other) for other in text.near(others)):
            kept.append(hit)
            others.append(text)
    return kept, len(hits) - len(kept)


class _Text:
    def __init__(self, text: str) -> None:
        self._text = text
        self.letters = fold_letters(text)

    @cached_property
    def samples(self) -> frozenset[str]:
        return frozenset(_SAMPLE.findall(self.letters))

    @cached_property
    def folded(self) -> str:
        return normalize_quote(self._text).text

    @cached_property
    def telling(self) -> list[str]:
        return _TELLING.findall(unicodedata.normalize("NFKD", self._text).casefold())

    @cached_property
    def shingles(self) -> frozenset[str]:
        text = self.folded
        # A comprehension: a generator takes twice as long.
        return frozenset([text[at : at + SIZE] for at in range(max(1, len(text) - SIZE + 1))])

    def near(self, others: Sequence[_Text]) -> list[_Text]:
        """Return those that lack so little that a tenth of all may be the whole difference.

        Folding and sets of all shingles take most of the time; a few of them tell as well.
        """
        samples, n = self.samples, len(self.samples)
        return [
            other
            for other in others
            if (most := max(n, len(other.samples))) < MIN_SAMPLES
            or 2 * len(samples & other.samples) >= most
        ]

    def is_same(self, other: _Text) -> bool:
        if self.folded == other.folded:
            return True
        # A raised digit is a sign of its own once it is folded.
        if _SIGN.findall(self.folded) != _SIGN.findall(other.folded):
            return False
        n, m = len(self.shingles), len(other.shingles)
        # So few in common at most that the rest need not be looked at.
        if min(n, m) < MIN_SHARED * max(n, m):
            return False
        n_shared = len(self.shingles & other.shingles)
        is_near = n_shared >= MIN_SHARED * (n + m - n_shared)
        # Last, for finding these takes longest.
        return is_near and self.telling == other.telling


# Between chunks that follow each other lies white space, if anything.
MAX_GAP = 16
# A chunk is shown whole up to so many tokens; what is merged should be, too.
MAX_TOKENS = 500

Read = Callable[[int, int, int], str]
"""Gives ``canonical[start:end]`` of a file, an empty text when it is gone."""


def join_passages(hits: Sequence[Hit], siblings: Sequence[Hit], read: Read) -> list[Hit]:
    """Return hits with the passages that they are shown with, those of one passage as one.

    ``siblings`` are other chunks of these passages, ranked behind all hits. Only what stands side
    by side is joined: a chunk that was edited, switched off or deleted parts its passage.
    """
    groups: dict[tuple[int | None, int | None], list[Hit]] = {}
    made: list[Hit] = []
    ids = {hit.chunk_id for hit in hits}
    for hit in (*hits, *(one for one in siblings if one.chunk_id not in ids)):
        if hit.parent_start is not None and _is_mergeable(hit):
            groups.setdefault((hit.file_id, hit.parent_start), []).append(hit)
        elif hit.chunk_id in ids:
            made.append(hit)
    for members in groups.values():
        made += _merged(sorted(members, key=lambda hit: (hit.char_start, hit.char_end)), read, None)
    last = max((hit.rank for hit in hits), default=0)
    found = sorted((hit for hit in made if hit.rank <= last), key=lambda hit: hit.rank)
    return [replace(hit, parent_start=None) for hit in found]


def merge_neighbours(
    hits: Sequence[Hit], read: Read, *, max_tokens: int | None = MAX_TOKENS
) -> tuple[list[Hit], int]:
    """Return hits in order of their best part, and how many went into others.

    Merged are chunks of one file that overlap, touch, or have only white space between them, up
    to ``max_tokens``. ``data["chunks"]`` of a merged hit names its parts, which citations pin.
    Chunks that were edited are no part of the canonical text any more and stay alone.
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
        in_place = sorted(members, key=lambda hit: (hit.char_start, hit.char_end))
        made += _merged(in_place, read, max_tokens)
    order = {id(hit): place for place, hit in enumerate(hits)}
    made.sort(key=lambda hit: (hit.rank, order.get(id(hit), 0)))
    return made, len(hits) - len(made)


def _is_mergeable(hit: Hit) -> bool:
    is_span = hit.char_end - hit.char_start == len(hit.text) and hit.text != ""
    return hit.chunk_id is not None and hit.file_id is not None and hit.revision == 1 and is_span


def _merged(members: Sequence[Hit], read: Read, max_tokens: int | None) -> list[Hit]:
    made: list[Hit] = []
    for hit in members:
        n_tokens = made[-1].token_count + hit.token_count if made else 0
        has_room = max_tokens is None or n_tokens <= max_tokens
        joined = _join(made[-1], hit, read) if made and has_room else None
        if joined is None:
            made.append(hit)
        else:
            made[-1] = joined
    return made


def _join(left: Hit, right: Hit, read: Read) -> Hit | None:
    """Return both as one hit, None where they may not be one."""
    gap = right.char_start - left.char_end
    if gap > MAX_GAP:
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
        table_header=left.table_header,
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
