"""Which chunks hold these words, for lists. In: a queryset and words. Out: a narrower queryset.

Unlike a search it ranks nothing, takes words as written and finds switched-off chunks too.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from rag import models
from rag.core.access import Scope
from rag.providers.postgres.chunk_words import first_readers, first_sharers
from rag.providers.postgres.keys import term_key
from rag.providers.postgres.term_counts import count_holders
from rag.stages.terms import query_terms

Chunks = QuerySet[models.Chunk]
READ_UP_TO = 20_000
COMMON = 40_000
MAX_WORDS = 8


def find_chunks(*, chunks: Chunks, scope: Scope, words: str) -> Chunks:
    """Return those of ``chunks`` whose text holds each of ``words``, in capitals or not.

    Up to 20,000 chunks are read. Of more the lexical index first picks those of readable stores
    that share a search term with each word, so that a million need not be read. A word that is
    in very many is not looked up there: the first that hold it are found sooner by reading.
    """
    held = _holding(chunks, words)
    if _are_few(chunks):
        return held
    stores = list(models.Store.objects.readable(scope).values_list("pk", flat=True))
    for part in _parts(words):
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
    held = _holding(chunks, words)
    order = tuple(str(name) for name in chunks.query.order_by) if in_order else ()
    if _are_few(chunks):
        found = list(held.order_by(*order).values_list("pk", flat=True)[:limit])
    elif keys := _leading_keys(words, stores, order):
        found = first_sharers(held, keys, limit, *order)
    else:
        found = first_readers(
            chunks.order_by(*order), _holding(models.Chunk.objects.all(), words), limit
        )
    return chunks.filter(pk__in=RawSQL("SELECT unnest(%s::bigint[])", [found]))


def _leading_keys(words: str, stores: Sequence[int], order: Sequence[str]) -> list[list[int]]:
    """Return the keys of each word that the index may name candidates by; none: it is no use."""
    if order and order not in (("id",), ("-id",)):
        return []
    known = {part: keys for part in _parts(words) if (keys := _keys(part, stores))}
    # To be put in order all candidates are needed, so one of the words must be rare enough.
    if order and all(_is_common(part, stores) for part in known):
        return []
    return list(known.values())


def _holding(chunks: Chunks, words: str) -> Chunks:
    for part in _parts(words):
        chunks = chunks.filter(text__icontains=part)
    return chunks


def _parts(words: str) -> list[str]:
    return words.replace("\0", " ").split()[:MAX_WORDS]


def _are_few(chunks: Chunks) -> bool:
    return chunks.order_by()[: READ_UP_TO + 1].count() <= READ_UP_TO


def _is_common(part: str, stores: Sequence[int]) -> bool:
    """Return whether very many chunks share a term with a word."""
    pairs = [(store, term_key(store, term)) for store in stores for term in _telling(part)]
    n_holders = count_holders([store for store, _key in pairs], [key for _store, key in pairs])
    return n_holders > COMMON


def _keys(part: str, stores: Sequence[int]) -> list[int]:
    return [term_key(store, term) for store in stores for term in _telling(part)]


def _telling(part: str) -> list[str]:
    terms = query_terms(part)
    # One character alone is in too many chunks, unless the word is made of such.
    telling = [term for term, weight in terms.items() if weight == 1.0 and len(term) > 1]
    return telling or list(terms)
