"""Which chunks hold these words, for lists. In: a queryset and words. Out: a narrower queryset.

Unlike a search it ranks nothing, takes words as written and finds switched-off chunks too.
"""

from __future__ import annotations

from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from rag import models
from rag.core.access import Scope
from rag.providers.postgres.keys import term_key
from rag.stages.terms import query_terms

READ_UP_TO = 20_000
MAX_WORDS = 8


def find_chunks(
    *, chunks: QuerySet[models.Chunk], scope: Scope, words: str
) -> QuerySet[models.Chunk]:
    """Return those of ``chunks`` whose text holds each of ``words``, in capitals or not.

    Up to 20,000 chunks are read. Of more the lexical index first picks those of readable stores
    that share a search term with each word, so that a million need not be read.
    """
    parts = words.replace("\0", " ").split()[:MAX_WORDS]
    is_read = chunks.order_by()[: READ_UP_TO + 1].count() <= READ_UP_TO
    stores = [] if is_read else _stores(scope)
    for part in parts:
        chunks = chunks.filter(text__icontains=part)
        if not is_read:
            chunks = chunks.filter(pk__in=_sharers(part, stores))
    return chunks


def _stores(scope: Scope) -> list[int]:
    return list(models.Store.objects.readable(scope).values_list("pk", flat=True))


def _sharers(part: str, stores: list[int]) -> RawSQL:
    terms = query_terms(part)
    # One character alone is in too many chunks, unless the word is made of such.
    telling = [term for term, weight in terms.items() if weight == 1.0 and len(term) > 1]
    keys = [term_key(store, term) for store in stores for term in telling or terms]
    return RawSQL("SELECT chunk_id FROM rag_chunk_lex WHERE rag_terms(w) && %s", [keys])
