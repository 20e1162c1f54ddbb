"""How well rankings answer questions. In: judgements and rankings. Out: figures from 0 to 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import ir_measures
from ir_measures import RR, R, nDCG

from rag.core.errors import InvalidInputError

MEASURES = {"R@1": R @ 1, "R@5": R @ 5, "R@10": R @ 10, "MRR@10": RR @ 10, "nDCG@10": nDCG @ 10}

Judgements = Mapping[str, Mapping[str, int]]
Rankings = Mapping[str, Sequence[str]]


def score_rankings(judgements: Judgements, rankings: Rankings) -> dict[str, float]:
    """Return the mean of each measure over the judged queries.

    ``judgements`` maps a query to its documents' grades (0: not relevant), ``rankings`` a query
    to documents, best first. A judged query without a ranking counts as 0; a query without a
    relevant document is left out. Raises InvalidInputError when nothing can be measured or a
    ranking names a document twice.
    """
    judged = {q: docs for q, docs in judgements.items() if any(g > 0 for g in docs.values())}
    if not judged:
        raise InvalidInputError(
            "No query has a relevant document, so nothing can be measured.",
            hint="Check that qrels.tsv and queries.jsonl use the same ids.",
        )
    for query in judged:
        documents = rankings.get(query, ())
        if len(set(documents)) != len(documents):
            raise InvalidInputError("The ranking of query {query} repeats a document.", query=query)
    qrels = [
        ir_measures.Qrel(query, document, grade)
        for query, documents in judged.items()
        for document, grade in documents.items()
    ]
    # Equal scores would be ordered by name, so each place gets a score of its own.
    run = [
        ir_measures.ScoredDoc(query, document, float(-place))
        for query in judged
        for place, document in enumerate(rankings.get(query, ()))
    ]
    found = ir_measures.calc_aggregate(MEASURES.values(), qrels, run) if run else {}
    return {name: _plain(found.get(measure, 0.0)) for name, measure in MEASURES.items()}


def _plain(value: float) -> float:
    return 0.0 if math.isnan(value) else round(float(value), 6)
