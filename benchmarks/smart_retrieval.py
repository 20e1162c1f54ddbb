"""Smart retrieval benchmark: ``retrieve`` in mode auto against the hybrid search.

Run ``python -m benchmarks.smart_retrieval [--data DIR] [--queries N]``: the same questions by
``retrieve`` in mode auto and by the hybrid search, ten places each. A merged hit counts as the
passages that it holds, its best one first.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup()

from django.core.management import call_command  # noqa: E402

from benchmarks.record import Report  # noqa: E402 - Django's settings come first
from rag.core.access import Scope  # noqa: E402
from rag.core.errors import RAGError  # noqa: E402
from rag.core.hits import Hit  # noqa: E402
from rag.evals.datasets import Dataset, read_dataset  # noqa: E402
from rag.evals.metrics import score_rankings  # noqa: E402
from rag.services.evaluation.datasets import ensure_corpus_store  # noqa: E402
from rag.services.search.engine import run_search  # noqa: E402
from rag.services.search.retrieval import Retrieval, retrieve  # noqa: E402

DATA = Path("../shared/data")
TOP_K = 10


def measure(report: Report, dataset: Dataset, n_queries: int) -> None:
    """Print nDCG and recall of both ways and how often auto fell back."""
    store = ensure_corpus_store(
        corpus=dataset.corpus, documents=dataset.documents, on_embedded=lambda n: None
    )
    settings = store.retrieval_settings.but(top_k=TOP_K)
    ids = list(dataset.documents)
    judged = [key for key in dataset.queries if key in dataset.judgements]
    sample = judged[:: max(1, len(judged) // n_queries)][:n_queries]
    judgements = {key: dataset.judgements[key] for key in sample}
    rankings: dict[str, dict[str, list[str]]] = {"auto": {}, "hybrid": {}}
    modes: Counter[str] = Counter()
    for key in sample:
        query, scope = dataset.queries[key], Scope.operator()
        found = retrieve(
            query=query, scope=scope, stores=[store], settings=settings, search_engine=run_search
        )
        rankings["auto"][key] = [ids[page - 1] for page in _pages(found)][:TOP_K]
        modes[found.metadata["fallback"] or found.metadata["mode"]] += 1
        modes["fallback"] += bool(found.metadata["fallback"])
        plain = run_search(
            query=query,
            scope=scope,
            stores=[store],
            settings=settings.but(mode="hybrid"),
            is_logged=False,
        )
        rankings["hybrid"][key] = [ids[hit.page_first - 1] for hit in plain.hits if hit.page_first]
    figures = {way: score_rankings(judgements, ranking) for way, ranking in rankings.items()}
    for name in ("nDCG@10", "R@1", "R@10"):
        auto, hybrid = figures["auto"][name], figures["hybrid"][name]
        report.add(f"{dataset.name}: auto, {name}", auto, is_kept=name == "nDCG@10")
        least = -0.01 if name == "nDCG@10" else None
        report.add(
            f"{dataset.name}: auto above hybrid, {name}",
            auto - hybrid,
            least=least,
            is_kept=name == "nDCG@10",
        )
    report.add(f"{dataset.name}: fell back to hybrid", modes["fallback"] / len(sample))


def _pages(found: Retrieval) -> list[int]:
    pages: list[int] = []
    for hit in found.hits:
        first, last = hit.page_first or 0, hit.page_last or 0
        best = _best_page(hit)
        pages += [best, *(page for page in range(first, last + 1) if page != best)]
    return list(dict.fromkeys(pages))


def _best_page(hit: Hit) -> int:
    """Return the page of the part that was found first: pages are joined by a form feed."""
    parts = hit.data["chunks"] if hit.data else []
    start = next((p["char_start"] for p in parts if p["chunk_id"] == hit.chunk_id), hit.char_start)
    return (hit.page_first or 0) + hit.text.count("\f", 0, start - hit.char_start)


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the test sets")
    parser.add_argument("--queries", type=int, default=200, help="how many of each set")
    options = parser.parse_args()
    report = Report("smart retrieval")
    call_command("migrate", verbosity=0)
    try:
        for name in ("xquad-zh", "xquad-en"):
            measure(report, read_dataset(options.data / name), options.queries)
        across = read_dataset(options.data / "xquad-en", query_folder=options.data / "xquad-zh")
        measure(report, across, options.queries)
    except RAGError as error:
        print(error, file=sys.stderr)
        return 1
    report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
