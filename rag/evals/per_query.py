"""Figures of each single question. In: judgements and rankings. Out: measures by question."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean

import ir_measures

from rag.evals.metrics import MEASURES, Judgements, Rankings


def score_each(judgements: Judgements, rankings: Rankings) -> dict[str, dict[str, float]]:
    """Return each judged question's measures, 0 to 1; one without a ranking has zeros.

    Questions without a relevant document are left out. Rankings name no document twice.
    """
    judged = {q: docs for q, docs in judgements.items() if any(g > 0 for g in docs.values())}
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
    names = {measure: name for name, measure in MEASURES.items()}
    if run:
        for metric in ir_measures.iter_calc(list(names), qrels, run):
            value = float(metric.value)
            scores[metric.query_id][names[metric.measure]] = (
                0.0 if math.isnan(value) else round(value, 6)
            )
    return scores


def mean_scores(scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each measure over the questions; empty for none."""
    rows = list(scores.values())
    return {name: round(fmean(row[name] for row in rows), 6) for name in MEASURES} if rows else {}
