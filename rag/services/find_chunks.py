"""Which chunks hold these words, for lists. In: a queryset and words. Out: a narrower queryset.

Unlike a search it ranks nothing, takes words as written and finds switched-off chunks too.
"""

from __future__ import annotations

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


def find_chunks(
    *, chunks: QuerySet[models.Chunk], scope: Scope, words: str
) -> QuerySet[models.Chunk]:
    """Return those of ``chunks`` whose text holds each of ``words``, in capitals or not.

    Up to 20,000 chunks are read. Of more the lexical index first picks those of readable stores
    that share a search term with each word, so that a million need not be read. A word that is
    in very many is not looked up there: the first that hold it are found sooner by reading.
    """
    parts = words.replace("\0", " ").split()[:MAX_WORDS]
    is_read = chunks.order_by()[: READ_UP_TO + 1].count() <= READ_UP_TO
    stores = [] if is_read else _stores(scope)
    for part in parts:
        chunks = chunks.filter(text__icontains=part)
        if not is_read and (sharers := _sharers(part, stores)) is not None:
            chunks = chunks.filter(pk__in=sharers)
    return chunks


def _stores(scope: Scope) -> list[int]:
    return list(models.Store.objects.readable(scope).values_list("pk", flat=True))


def _sharers(part: str, stores: list[int]) -> RawSQL | None:
    terms = query_terms(part)
    # One character alone is in too many chunks, unless the word is made of such.
    telling = [term for term, weight in terms.items() if weight == 1.0 and len(term) > 1]
    pairs = [(store, term_key(store, term)) for store in stores for term in telling or terms]
    keys = [key for _store, key in pairs]
    if count_holders([store for store, _key in pairs], keys) > COMMON:
        return None
    return RawSQL("SELECT chunk_id FROM rag_chunk_lex WHERE rag_terms(w) && %s", [keys])
