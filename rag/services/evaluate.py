"""How well the search answers judged questions. In: a data folder. Out: figures.

Every question goes through the search that everybody uses; nothing is tuned for the occasion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rag.core.access import Scope
from rag.core.errors import InvalidInputError, UnknownNameError
from rag.evals.datasets import Dataset, read_dataset
from rag.evals.metrics import score_rankings
from rag.services.evaluation_store import ensure_store
from rag.services.search import search

MODES = {"vector": "semantic", "bm25": "keyword", "hybrid": "hybrid"}
TOP_K = 10

Progress = Callable[[str, int, int], None]
"""Hears a stage, “embedding” or “searching”, how much more of it is done, and its total."""


def _silent(stage: str, n: int, total: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Figures of one run, with all that they depend on; ``sql_ms`` is the median."""

    data: str
    mode: str
    model: str
    n_documents: int
    n_queries: int
    settings_hash: str
    sql_ms: float
    figures: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Return a flat JSON-safe form."""
        return {
            "data": self.data, "mode": self.mode, "model": self.model,
            "documents": self.n_documents, "queries": self.n_queries,
            "settings": self.settings_hash, "sql_ms": round(self.sql_ms, 2), **self.figures,
        }  # fmt: skip


def evaluate(
    *,
    data_dir: Path,
    mode: str = "hybrid",
    limit: int | None = None,
    query_dir: Path | None = None,
    on_progress: Progress = _silent,
) -> Evaluation:
    """Search with every judged query of a folder and return the figures.

    ``mode`` is vector, bm25 or hybrid; ``limit`` takes the first queries only; ``query_dir``
    takes the queries of another folder that shares the ids. The corpus is indexed when needed.
    """
    check_limit(limit=limit)
    dataset = read_dataset(data_dir, query_folder=query_dir)
    return evaluate_dataset(dataset=dataset.limited(limit), mode=mode, on_progress=on_progress)


def check_limit(*, limit: int | None) -> None:
    """Raise InvalidInputError for a number of questions that is none; None takes all."""
    if limit is not None and limit < 1:
        raise InvalidInputError("The limit is {limit}.", hint="Allowed: 1 or more.", limit=limit)


def evaluate_dataset(*, dataset: Dataset, mode: str, on_progress: Progress = _silent) -> Evaluation:
    """Search with every query of a dataset at hand and return the figures."""
    if mode not in MODES:
        raise UnknownNameError("evaluation mode", mode, MODES)
    store = ensure_store(
        corpus=dataset.corpus, documents=dataset.documents,
        on_embedded=lambda n: on_progress("embedding", n, len(dataset.documents)),
    )  # fmt: skip
    settings = store.retrieval_settings.but(mode=MODES[mode], top_k=TOP_K)
    ids = list(dataset.documents)
    rankings: dict[str, list[str]] = {}
    times: list[float] = []
    for key, query in dataset.queries.items():
        result = search(
            query=query, scope=Scope.operator(), stores=[store], settings=settings, is_logged=False
        )
        rankings[key] = [ids[hit.page_first - 1] for hit in result.hits if hit.page_first]
        times.append(result.timings_ms["sql"])
        on_progress("searching", 1, len(dataset.queries))
    assert store.space is not None, "the evaluation's own store is local"
    return Evaluation(
        data=dataset.name, mode=mode, model=store.space.model, n_documents=len(ids),
        n_queries=len(rankings), settings_hash=settings.hash, sql_ms=median(times),
        figures=score_rankings(dataset.judgements, rankings),
    )  # fmt: skip
