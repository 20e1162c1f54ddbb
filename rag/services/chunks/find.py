"""Substring search in chunks for lists, and passages located in a file's present chunks.

It ranks nothing, takes words as written and finds disabled chunks too, unlike retrieval.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import islice

from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from rag import models
from rag.core.access import Scope
from rag.providers.postgres.db.connections import fetch_rows
from rag.providers.postgres.lexical.bm25 import term_key
from rag.providers.postgres.search.term_lookup import (
    document_frequency,
    find_chunks_by_terms,
    find_chunks_in_order,
)
from rag.stages.text.normalize import NormalizedText, normalize_quote, occurrences
from rag.stages.text.terms import index_terms, query_terms

Chunks = QuerySet[models.Chunk]
READ_UP_TO = 20_000
COMMON = 40_000
MAX_WORDS = 8


def hold_chunks(chunk_ids: Iterable[int]) -> frozenset[int]:
    """Return those of the chunks that are there; none is deleted until the transaction ends."""
    ids = sorted(set(chunk_ids))
    held = "SELECT id FROM rag_chunk WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE"
    return frozenset(pk for (pk,) in fetch_rows(held, [ids])) if ids else frozenset()


# So many of the passage's words must be in a chunk that takes its place.
MOST_WORDS = 0.7
MAX_PLACES = 1000


def find_chunks(*, chunks: Chunks, scope: Scope, words: str) -> Chunks:
    """Return those of ``chunks`` whose text holds each of ``words``, in capitals or not.

    Up to 20,000 chunks are read. Of more the lexical index first picks those of readable stores
    that share a search term with each word, so that a million need not be read. A word that is
    in very many is not looked up there: the first that hold it are found sooner by reading.
    """
    held = _containing(chunks, words)
    if _is_small(chunks):
        return held
    stores = list(models.Store.objects.readable(scope).values_list("pk", flat=True))
    for part in _words(words):
        if not _is_common(part, stores):
            shares = "SELECT chunk_id FROM rag_chunk_lex WHERE rag_terms(w) && %s"
            held = held.filter(pk__in=RawSQL(shares, [_keys(part, stores)]))
    return held


def find_first_chunks(
    *, chunks: Chunks, stores: Sequence[int], words: str, limit: int, in_order: bool = False
) -> Chunks:
    """Return what ``find_chunks`` finds, but no more than ``limit``, whichever are found first.

    ``stores`` are those of the chunks. It takes as long as ``limit`` says, however common the words
    are and wherever they stand; the rows may then be counted and sorted at little cost.
    ``in_order`` finds those that are first in the order of ``chunks``: by id the lexical index
    names the candidates of a word that is not in very many, else chunk after chunk is read.
    """
    held = _containing(chunks, words)
    order = tuple(str(name) for name in chunks.query.order_by) if in_order else ()
    if _is_small(chunks):
        found = list(held.order_by(*order).values_list("pk", flat=True)[:limit])
    elif keys := _leading_keys(words, stores, order):
        found = find_chunks_by_terms(held, keys, limit, *order)
    else:
        found = find_chunks_in_order(
            chunks.order_by(*order), _containing(models.Chunk.objects.all(), words), limit
        )
    return chunks.filter(pk__in=RawSQL("SELECT unnest(%s::bigint[])", [found]))


def _leading_keys(words: str, stores: Sequence[int], order: Sequence[str]) -> list[list[int]]:
    """Return the keys of each word that the index may name candidates by; none: it is no use."""
    if order and order not in (("id",), ("-id",)):
        return []
    known = {part: keys for part in _words(words) if (keys := _keys(part, stores))}
    # To be put in order all candidates are needed, so one of the words must be rare enough.
    if order and all(_is_common(part, stores) for part in known):
        return []
    return list(known.values())


def _containing(chunks: Chunks, words: str) -> Chunks:
    for part in _words(words):
        chunks = chunks.filter(text__icontains=part)
    return chunks


def _words(words: str) -> list[str]:
    return words.replace("\0", " ").split()[:MAX_WORDS]


def _is_small(chunks: Chunks) -> bool:
    return chunks.order_by()[: READ_UP_TO + 1].count() <= READ_UP_TO


def _is_common(part: str, stores: Sequence[int]) -> bool:
    """Return whether very many chunks share a term with a word."""
    pairs = [(store, term_key(store, term)) for store in stores for term in _selective_terms(part)]
    n_holders = document_frequency([store for store, _key in pairs], [key for _store, key in pairs])
    return n_holders > COMMON


def _keys(part: str, stores: Sequence[int]) -> list[int]:
    return [term_key(store, term) for store in stores for term in _selective_terms(part)]


def _selective_terms(part: str) -> list[str]:
    # Some of the chunks may be indexed by their traditional characters still.
    terms = {**query_terms(part, is_simplified=False), **query_terms(part)}
    # One character alone is in too many chunks, unless the word is made of such.
    telling = [term for term, weight in terms.items() if weight == 1.0 and len(term) > 1]
    return telling or list(terms)


def find_passages(
    *, file_id: int, passages: Mapping[int, tuple[str, int]]
) -> dict[int, frozenset[int]]:
    """Return the live chunks that hold each passage, none where it is gone.

    A passage is named by a number, and is its text and the character near which it was. The file
    is read once.
    """
    text = models.File.objects.filter(pk=file_id).values_list("canonical_text", flat=True).get()
    live = list(
        models.Chunk.objects.live()
        .filter(file=file_id)
        .order_by("pk")
        .values_list("pk", "own_start", "char_end", "text")
    )
    found = {}
    # Folded when the first passage needs it, once for all.
    folded = cache(partial(normalize_quote, text))
    spread = cache(partial(_chunks_by_term, live))
    for key, (words, near) in passages.items():
        same = {pk for pk, _, _, said in live if said == words}
        span = None if same else _span_of(text, words, near, folded)
        held = same or (_passages_holding(live, *span) if span else set())
        found[key] = frozenset(held or _similar_chunks(spread, words))
    return found


def _span_of(
    text: str, words: str, near: int, folded: Callable[[], NormalizedText]
) -> tuple[int, int] | None:
    """Return where ``words`` stand in the text, the place nearest to ``near`` of several."""
    places = islice(occurrences(text, words), MAX_PLACES)
    start = min(places, key=lambda at: abs(at - near), default=None)
    if start is not None:
        return start, start + len(words)
    wanted = normalize_quote(words).text
    at = folded().text.find(wanted) if wanted else -1
    return folded().span(at, at + len(wanted)) if at >= 0 else None


def _passages_holding(live: Sequence[tuple[int, int, int, str]], start: int, end: int) -> set[int]:
    return {
        pk
        for pk, first, last, _ in live
        if first < last and min(last, end) - max(first, start) >= min(last - first, end - start) / 2
    }


def _chunks_by_term(live: Sequence[tuple[int, int, int, str]]) -> dict[str, list[int]]:
    found = defaultdict(list)
    for pk, _, _, said in live:
        for term in set(index_terms(said)):
            found[term].append(pk)
    return dict(found)


def _similar_chunks(spread: Callable[[], dict[str, list[int]]], words: str) -> set[int]:
    wanted = set(index_terms(words))
    if not wanted:
        return set()
    n_met = Counter(pk for term in wanted for pk in spread().get(term, ()))
    best = max(n_met.values(), default=0)
    is_enough = best / len(wanted) >= MOST_WORDS
    return {pk for pk, n in n_met.items() if n == best} if is_enough else set()
