"""Retrieval metrics: recall, MRR and nDCG of rankings against judgements, 0 to 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from rag.core.errors import InvalidInputError

# In the terms of ir_measures, which calls the reciprocal rank RR.
MEASURES = {"R@1": "R@1", "R@5": "R@5", "R@10": "R@10", "MRR@10": "RR@10", "nDCG@10": "nDCG@10"}
# By which runs are compared and gates decide.
MAIN_MEASURE = "nDCG@10"

_Judgements = Mapping[str, Mapping[str, int]]
_Rankings = Mapping[str, Sequence[str]]


def score_rankings(judgements: _Judgements, rankings: _Rankings) -> dict[str, float]:
    """Return the mean of each measure over the judged queries.

    ``judgements`` maps a query to its documents' grades (0: not relevant), ``rankings`` a query
    to documents, best first. A judged query without a ranking counts as 0; a query without a
    relevant document is left out. Raises InvalidInputError when nothing can be measured or a
    ranking names a document twice.
    """
    scores = score_each(judgements, rankings)
    if not scores:
        raise InvalidInputError(
            "No query has a relevant document, so nothing can be measured.",
            hint="Check that qrels.tsv and queries.jsonl use the same ids.",
        )
    return mean_scores(scores)


def score_each(judgements: _Judgements, rankings: _Rankings) -> dict[str, dict[str, float]]:
    """Return each judged query's measures; one without a ranking has zeros.

    What goes in, is left out and raised is as in ``score_rankings``, but nothing to measure is no
    error.
    """
    # It reads its providers from disk, which every command would wait for.
    import ir_measures

    judged = {q: docs for q, docs in judgements.items() if any(g > 0 for g in docs.values())}
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
    scores: dict[str, dict[str, float]] = {q: dict.fromkeys(MEASURES, 0.0) for q in judged}
    names = {ir_measures.parse_measure(term): name for name, term in MEASURES.items()}
    for metric in ir_measures.iter_calc(list(names), qrels, run) if run else ():
        scores[metric.query_id][names[metric.measure]] = _plain(metric.value)
    return scores


def mean_scores(scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each measure over the queries; empty for none."""
    rows = list(scores.values())
    return {name: round(fmean(row[name] for row in rows), 6) for name in MEASURES} if rows else {}


def _plain(value: float) -> float:
    return 0.0 if math.isnan(value) else round(float(value), 6)
