"""Answerability of a search: the classifier's verdict, and what of the question nobody mentions.

It costs no model call. The index is asked only for what no candidate mentions, one bounded
statement for each such thing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rag import models
from rag.core.access import Scope
from rag.core.answerability import Answerability, MissingTerm
from rag.core.hits import Hit
from rag.providers.postgres.lexical.bm25 import term_key
from rag.providers.postgres.search.term_lookup import find_chunks_by_terms
from rag.services.search.confidence import similarity_of
from rag.stages.query.answerability import SearchEvidence, judge_answerability
from rag.stages.query.references import (
    Reference,
    find_references,
    is_written_alike,
    missing_references,
    nearest_mention,
)

# Texts read for one reference: those that hold all its words. Where there are more, it is taken for
# mentioned: nobody shall be told otherwise by mistake.
MAX_READ = 20


def search_answerability(
    *,
    query: str,
    hits: Sequence[Hit],
    pool: Sequence[Hit],
    models_of: Mapping[int, str],
    scope: Scope,
) -> Answerability | None:
    """Return whether ``hits``, chosen of the candidates ``pool``, can answer the question.

    ``models_of`` names the embedding model of each store searched. None where nothing can be told,
    see ``judge_answerability``.
    """
    evidence = SearchEvidence(
        query=query,
        hits=hits,
        pool=pool,
        similarities=[similarity_of(hit, models_of) for hit in hits],
    )
    return judge_answerability(evidence, _missing(query, pool, list(models_of), scope))


def _missing(
    query: str, pool: Sequence[Hit], store_ids: Sequence[int], scope: Scope
) -> list[MissingTerm]:
    """Return the references of a question that no readable chunk of the stores mentions."""
    named = find_references(query)
    if any(one.kind == "name" for one in named) and not is_written_alike(query, pool):
        # Another language writes names otherwise.
        named = [one for one in named if one.kind != "name"]
    return [
        nearest_mention(one, pool)
        for one in missing_references(named, pool)
        if not _is_mentioned(one, store_ids, scope)
    ]


def _is_mentioned(reference: Reference, store_ids: Sequence[int], scope: Scope) -> bool:
    held = models.Chunk.objects.live().readable(scope).filter(enabled=True, store__in=store_ids)
    for terms in reference.lookups:
        keys = [[term_key(store, term) for store in store_ids] for term in terms]
        found = find_chunks_by_terms(held, keys, MAX_READ)
        texts = models.Chunk.objects.filter(pk__in=found).values_list("text", flat=True)
        if len(found) == MAX_READ or (found and any(map(reference.is_in, texts))):
            return True
    return False
