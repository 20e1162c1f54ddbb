"""Two embedding models on a folder with judged questions. In: both names. Out: paired nDCG@10."""

from __future__ import annotations

from pathlib import Path

from rag.core.access import Scope
from rag.evals.datasets import Dataset, read_dataset
from rag.evals.metrics import score_each
from rag.evals.paired import Paired, compare_paired
from rag.services.evaluation_store import ensure_store
from rag.services.search import search

MAIN, TOP_K = "nDCG@10", 10


def compare_folder(*, folder: Path, before: str, after: str) -> Paired:
    """Return how the search answers a BEIR-like folder by either model, question by question.

    Each model gets a store of its own, “eval <corpus> <model>”, that is kept for the next time.
    """
    dataset = read_dataset(folder)
    first, second = _scores(dataset, before), _scores(dataset, after)
    return compare_paired([first[key][MAIN] for key in first], [second[key][MAIN] for key in first])


def _scores(dataset: Dataset, model: str) -> dict[str, dict[str, float]]:
    store = ensure_store(
        corpus=dataset.corpus, documents=dataset.documents, on_embedded=lambda n: None,
        embedding_model=model,
    )  # fmt: skip
    settings = store.retrieval_settings.but(mode="hybrid", top_k=TOP_K)
    ids = list(dataset.documents)
    rankings: dict[str, list[str]] = {}
    for key, query in dataset.queries.items():
        found = search(
            query=query, scope=Scope.operator(), stores=[store], settings=settings, is_logged=False
        )
        rankings[key] = [ids[hit.page_first - 1] for hit in found.hits if hit.page_first]
    return score_each(dataset.judgements, rankings)
