"""Retrieval benchmark: ``retrieve`` in mode auto against its hybrid engine alone.

Run ``python -m benchmarks.smart_retrieval [--data DIR] [--queries N]``: the same questions by
``retrieve`` in mode auto and by the hybrid engine alone, ten places each, and how often the
dynamic number of hits holds an answer. A merged hit counts as one place.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup()

from django.core.management import call_command  # noqa: E402

from benchmarks.quality import mixed_pools  # noqa: E402 - Django's settings come first
from benchmarks.record import Report  # noqa: E402
from rag.core.access import Scope  # noqa: E402
from rag.core.errors import RAGError  # noqa: E402
from rag.evals.datasets import Dataset, read_dataset  # noqa: E402
from rag.evals.metrics import score_rankings  # noqa: E402
from rag.services.evaluation import ensure_corpus_store, rank_documents  # noqa: E402
from rag.services.search import retrieve  # noqa: E402
from rag.services.search.engine import run_search  # noqa: E402

DATA = Path("../shared/data")
TOP_K = 10


def measure(report: Report, dataset: Dataset, n_queries: int) -> None:
    """Print nDCG and recall of both ways, and the share of answers in the dynamic number."""
    store = ensure_corpus_store(
        corpus=dataset.corpus, documents=dataset.documents, on_embedded=lambda n: None
    )
    settings, ids = store.retrieval_settings, list(dataset.documents)
    judged = [key for key in dataset.queries if key in dataset.judgements]
    sample = judged[:: max(1, len(judged) // n_queries)][:n_queries]
    judgements = {key: dataset.judgements[key] for key in sample}
    rankings: dict[str, dict[str, list[str]]] = {"auto": {}, "hybrid": {}}
    n_held = n_wide = 0
    for key in sample:
        asked = {"query": dataset.queries[key], "scope": Scope.operator(), "stores": [store]}
        found = retrieve(**asked, settings=settings.but(top_k=TOP_K), purpose="evaluation")
        rankings["auto"][key] = rank_documents(ids, judgements[key], found.hits)
        plain = run_search(**asked, settings=settings.but(mode="hybrid", top_k=TOP_K))
        rankings["hybrid"][key] = rank_documents(ids, judgements[key], plain.hits)
        shown = retrieve(**asked, settings=settings, purpose="evaluation")
        n_held += any(
            judgements[key].get(d) for d in rank_documents(ids, judgements[key], shown.hits)
        )
        n_wide += shown.analysis is not None and shown.top_k > shown.analysis.top_k
    figures = {way: score_rankings(judgements, ranking) for way, ranking in rankings.items()}
    for name in ("nDCG@10", "R@1", "R@10"):
        auto, hybrid = figures["auto"][name], figures["hybrid"][name]
        is_main = name == "nDCG@10"
        report.add(f"{dataset.name}: auto, {name}", auto, is_kept=is_main)
        least = -0.01 if is_main else None
        report.add(
            f"{dataset.name}: auto above hybrid, {name}",
            auto - hybrid,
            least=least,
            is_kept=is_main,
        )
    report.add(f"{dataset.name}: an answer among the dynamic number", n_held / len(sample))
    report.add(f"{dataset.name}: more hits for another language", n_wide / len(sample))


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the test sets")
    parser.add_argument("--queries", type=int, default=200, help="how many of each set")
    options = parser.parse_args()
    report = Report("smart retrieval")
    call_command("migrate", verbosity=0)
    data = options.data
    try:
        for name in ("xquad-zh", "xquad-en", "scifact"):
            measure(report, read_dataset(data / name), options.queries)
        for corpus, asked in (("xquad-en", "xquad-zh"), ("xquad-zh", "xquad-en")):
            across = read_dataset(data / corpus, query_folder=data / asked)
            measure(report, across, options.queries)
        measure(report, next(mixed_pools(data)), options.queries)
    except RAGError as error:
        print(error, file=sys.stderr)
        return 1
    report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
