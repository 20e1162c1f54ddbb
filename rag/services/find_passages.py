"""Where passages stand in a file's chunks now. In: a file and texts. Out: the chunks of each.

Every chunk counts that holds half of a passage, or is half held by it; where its very words are
gone, the chunk with the most of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from rag import models
from rag.stages.fold import Folded, fold_quote
from rag.stages.terms import index_terms

# So many of the passage's words must be in a chunk that takes its place.
MOST_WORDS = 0.7
MAX_PLACES = 1000


def find_passages(
    *, file_id: int, passages: Mapping[int, tuple[str, int]]
) -> dict[int, frozenset[int]]:
    """Return the live chunks that hold each passage, none where it is gone.

    A passage is named by a number, and is its text and the character near which it was. The file
    is read once.
    """
    text = models.File.objects.filter(pk=file_id).values_list("canonical_text", flat=True).get()
    live = list(
        models.Chunk.objects.live().filter(file=file_id).order_by("pk")
        .values_list("pk", "own_start", "char_end", "text")
    )  # fmt: skip
    found = {}
    # Folded when the first passage needs it, once for all.
    folded = cache(partial(fold_quote, text))
    spread = cache(partial(_spread, live))
    for key, (words, near) in passages.items():
        same = {pk for pk, _, _, said in live if said == words}
        place = None if same else _place(text, words, near, folded)
        held = same or (_holding(live, *place) if place else set())
        found[key] = frozenset(held or _alike(spread, words))
    return found


def _place(
    text: str, words: str, near: int, folded: Callable[[], Folded]
) -> tuple[int, int] | None:
    """Return where ``words`` stand in the text, the place nearest to ``near`` of several."""
    places: list[int] = []
    at = text.find(words) if words else -1
    while at >= 0 and len(places) < MAX_PLACES:
        places.append(at)
        at = text.find(words, at + 1)
    if places:
        start = min(places, key=lambda place: abs(place - near))
        return start, start + len(words)
    wanted = fold_quote(words).text
    at = folded().text.find(wanted) if wanted else -1
    return folded().span(at, at + len(wanted)) if at >= 0 else None


def _holding(live: Sequence[tuple[int, int, int, str]], start: int, end: int) -> set[int]:
    return {
        pk
        for pk, first, last, _ in live
        if first < last and min(last, end) - max(first, start) >= min(last - first, end - start) / 2
    }


def _spread(live: Sequence[tuple[int, int, int, str]]) -> dict[str, list[int]]:
    found = defaultdict(list)
    for pk, _, _, said in live:
        for term in set(index_terms(said)):
            found[term].append(pk)
    return dict(found)


def _alike(spread: Callable[[], dict[str, list[int]]], words: str) -> set[int]:
    wanted = set(index_terms(words))
    if not wanted:
        return set()
    n_met = Counter(pk for term in wanted for pk in spread().get(term, ()))
    best = max(n_met.values(), default=0)
    is_enough = best / len(wanted) >= MOST_WORDS
    return {pk for pk, n in n_met.items() if n == best} if is_enough else set()
