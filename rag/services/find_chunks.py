"""Which chunks hold these words, for lists. In: a queryset and words. Out: a narrower queryset.

Unlike a search it ranks nothing, takes words as written and finds switched-off chunks too.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from rag import models
from rag.core.access import Scope
from rag.providers.postgres.keys import term_key
from rag.providers.postgres.term_counts import count_holders
from rag.stages.terms import query_terms

READ_UP_TO = 20_000
COMMON = 40_000
MAX_WORDS = 8
# The planner takes any word for a rare one and would read all chunks for it. OFFSET keeps it from
# turning the question round: it looks into the chunks that the index names, until it has enough.
_FIRST = """SELECT l.chunk_id FROM rag_chunk_lex l
WHERE {shares} AND EXISTS ({holds} OFFSET 0) LIMIT %s"""


def find_chunks(
    *, chunks: QuerySet[models.Chunk], scope: Scope, words: str
) -> QuerySet[models.Chunk]:
    """Return those of ``chunks`` whose text holds each of ``words``, in capitals or not.

    Up to 20,000 chunks are read. Of more the lexical index first picks those of readable stores
    that share a search term with each word, so that a million need not be read. A word that is
    in very many is not looked up there: the first that hold it are found sooner by reading.
    """
    is_read = _are_few(chunks)
    stores = [] if is_read else _stores(scope)
    for part in _parts(words):
        chunks = chunks.filter(text__icontains=part)
        if not is_read and (sharers := _sharers(part, stores)) is not None:
            chunks = chunks.filter(pk__in=sharers)
    return chunks


def find_first_chunks(
    *, chunks: QuerySet[models.Chunk], stores: Sequence[int], words: str, limit: int
) -> QuerySet[models.Chunk]:
    """Return what ``find_chunks`` finds, but no more than ``limit``, whichever are found first.

    ``stores`` are those of the chunks. It takes as long as ``limit`` says, however common the words
    are and wherever they stand; the rows may then be counted and sorted at little cost.
    """
    held, parts = chunks, _parts(words)
    for part in parts:
        held = held.filter(text__icontains=part)
    keys = [] if _are_few(chunks) else [_keys(part, stores) for part in parts]
    if known := [row for row in keys if row]:
        found = _look_up(held, known, limit)
    else:
        found = list(held.order_by().values_list("pk", flat=True)[:limit])
    return chunks.filter(pk__in=RawSQL("SELECT unnest(%s::bigint[])", [found]))


def _parts(words: str) -> list[str]:
    return words.replace("\0", " ").split()[:MAX_WORDS]


def _are_few(chunks: QuerySet[models.Chunk]) -> bool:
    return chunks.order_by()[: READ_UP_TO + 1].count() <= READ_UP_TO


def _stores(scope: Scope) -> list[int]:
    return list(models.Store.objects.readable(scope).values_list("pk", flat=True))


def _keys(part: str, stores: Sequence[int]) -> list[int]:
    return [term_key(store, term) for store in stores for term in _telling(part)]


def _telling(part: str) -> list[str]:
    terms = query_terms(part)
    # One character alone is in too many chunks, unless the word is made of such.
    telling = [term for term, weight in terms.items() if weight == 1.0 and len(term) > 1]
    return telling or list(terms)


def _look_up(held: QuerySet[models.Chunk], keys: Sequence[list[int]], limit: int) -> list[int]:
    same = held.filter(pk=RawSQL("l.chunk_id", [])).order_by().values("pk")
    holds, params = same.query.sql_with_params()
    sql = _FIRST.format(shares=" AND ".join(["rag_terms(l.w) && %s"] * len(keys)), holds=holds)
    with transaction.atomic(), connection.cursor() as cursor:
        # A bitmap that does not fit names pages instead of rows, and each row's terms are read.
        cursor.execute("SET LOCAL work_mem = '64MB'")
        cursor.execute(sql, [*keys, *params, limit])
        return [int(pk) for (pk,) in cursor.fetchall()]


def _sharers(part: str, stores: list[int]) -> RawSQL | None:
    pairs = [(store, term_key(store, term)) for store in stores for term in _telling(part)]
    keys = [key for _store, key in pairs]
    if count_holders([store for store, _key in pairs], keys) > COMMON:
        return None
    return RawSQL("SELECT chunk_id FROM rag_chunk_lex WHERE rag_terms(w) && %s", [keys])
