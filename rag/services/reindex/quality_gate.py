"""Quality gate of a move: recall of the index and paired nDCG@10 of both spaces, with a verdict.

Judged on the store's golden questions and on a BEIR-like folder where one is named.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rag import models
from rag.core.errors import ConfigurationError, RAGError
from rag.core.ports import StoreTarget
from rag.evals.datasets import Dataset, read_dataset
from rag.evals.metrics import MAIN_MEASURE, score_each
from rag.evals.paired import PairedComparison, compare_paired
from rag.providers.postgres.search.recall import sample_recall
from rag.providers.postgres.vectors.spaces import index_name, valid_indexes
from rag.services.evaluation import (
    compare_runs,
    ensure_corpus_store,
    evaluate_store,
    evaluation_search,
    rank_documents,
)

TOP_K = 10
# Below it the index, not the model, loses hits.
MIN_RECALL = 0.95


def compare_spaces(
    *, folder: Path, before: models.EmbeddingSpace, after: models.EmbeddingSpace
) -> PairedComparison:
    """Return how the search answers a BEIR-like folder in either space, question by question.

    Each gets a store of its own, “eval <corpus> <model> <space>”, that is kept for the next time.
    """
    dataset = read_dataset(folder)
    first, second = _scores(dataset, before), _scores(dataset, after)
    return compare_paired(
        [first[key][MAIN_MEASURE] for key in first], [second[key][MAIN_MEASURE] for key in first]
    )


def _scores(dataset: Dataset, space: models.EmbeddingSpace) -> dict[str, dict[str, float]]:
    store = ensure_corpus_store(
        corpus=dataset.corpus,
        documents=dataset.documents,
        on_embedded=lambda n: None,
        space=space,
    )
    settings = store.retrieval_settings.but(mode="hybrid", top_k=TOP_K)
    ids = list(dataset.documents)
    rankings: dict[str, list[str]] = {}
    for key, query in dataset.queries.items():
        found = evaluation_search(query=query, store=store, settings=settings)
        rankings[key] = rank_documents(ids, dataset.judgements.get(key, {}), found.hits)
    return score_each(dataset.judgements, rankings)


def run_gate(*, run: models.ReindexRun) -> dict[str, Any]:
    """Return recall, the paired figures of both spaces, and ``passed`` with its ``reasons``.

    The store's golden questions are asked in both, and those of the folder that the run names.
    Neither being there is a reason too: nothing shows that the new space is as good.
    """
    assert run.target is not None and run.source is not None, "a move has both"
    margin = float(run.options.get("margin", 0.01))
    recall = _recall(run)
    report: dict[str, Any] = {"recall": round(recall, 4), "margin": margin}
    reasons = [] if recall >= MIN_RECALL else [f"recall@10 of the index is {recall:.3f}"]
    judged: dict[str, PairedComparison] = {}
    if run.store.golden_questions.askable().exists():
        judged["golden questions"] = _compare_golden(run, report)
    if folder := str(run.options.get("data") or ""):
        judged[folder] = compare_spaces(folder=Path(folder), before=run.source, after=run.target)
    report["compared"] = {name: asdict(paired) for name, paired in judged.items()}
    reasons += [
        f"{MAIN_MEASURE} of {name} fell by {-paired.difference:.4f}, more than {margin}"
        for name, paired in judged.items()
        if paired.difference < -margin
    ]
    if not judged:
        reasons.append("no golden questions and no folder to compare on")
    return {**report, "passed": not reasons, "reasons": reasons}


def gate_refusal(*, run: models.ReindexRun) -> RAGError:
    """Return why a run was refused, for people."""
    return ConfigurationError(
        "The new space was refused: {reasons}.",
        hint="Swap by force, or cancel the run; the live space is untouched.",
        reasons="; ".join(run.report.get("reasons", ())),
    )


def _compare_golden(run: models.ReindexRun, report: dict[str, Any]) -> PairedComparison:
    ran = []
    for name, space in (("before", run.source), ("after", run.target)):
        assert space is not None, "a move has both"
        facts = {"label": f"move {run.pk}, {name}", "created_by": run.created_by}
        ran.append(evaluate_store(store=run.store, space_id=space.pk, facts=facts))
        report[f"evaluation_{name}"] = ran[-1].pk
    return compare_runs(before=ran[0], after=ran[1]).main


def _recall(run: models.ReindexRun) -> float:
    assert run.target is not None, "a move has one"
    ready = valid_indexes()
    target = StoreTarget(
        store_id=run.store_id,
        space_id=run.target.pk,
        dim=run.target.dim,
        n_chunks=run.store.n_chunks,
        sees_restricted=True,
        has_hnsw=index_name(run.target.pk) in ready,
        has_partial=index_name(run.target.pk, run.store_id) in ready,
    )
    return sample_recall(target)
