"""Multi-hop benchmark: are both passages of a question that bridges two among what is found?

Run ``python -m benchmarks.multi_hop [--data DIR] [--tune]``: with decomposition and by one search
of as many hits, no model. Sixty made-up questions whose second passage cannot be found without the
name in the first, and sixty on XQuAD's own passages. ``--tune`` asks the halves to tune on.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup()

from django.core.management import call_command  # noqa: E402

from benchmarks.multi_hop_world import (  # noqa: E402 - Django's settings come first
    HALVES,
    BridgedQuestion,
    made_up_world,
)
from benchmarks.record import Report  # noqa: E402
from rag import models  # noqa: E402
from rag.core.access import Scope  # noqa: E402
from rag.core.errors import RAGError  # noqa: E402
from rag.core.types import SearchResult  # noqa: E402
from rag.evals.datasets import read_dataset  # noqa: E402
from rag.services.evaluation import ensure_corpus_store  # noqa: E402
from rag.services.search import retrieve  # noqa: E402

DATA = Path("../shared/data")
QUESTIONS = Path(__file__).parent / "data" / "multi_hop.jsonl"
LANGUAGES = ("en", "zh")


def natural_questions() -> list[BridgedQuestion]:
    """Return the questions on XQuAD's passages, which stand in both languages."""
    rows = map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines())
    return [
        BridgedQuestion(
            row["id"], row["language"], row["half"], row["question"], tuple(row["passages"])
        )
        for row in rows
    ]


def measure(report: Report, data: Path, half: str) -> None:
    """Print both ways for either set, and the difference."""
    natural = natural_questions()
    sets: dict[str, list[tuple[bool, bool]]] = {"made up": [], "XQuAD": []}
    for language in LANGUAGES:
        documents, made_up = made_up_world(language)
        dataset = read_dataset(data / f"xquad-{language}")
        mine = [one for one in natural if one.language == language]
        for name, corpus, texts, questions in (
            ("made up", f"bridges-{language}", documents, made_up),
            ("XQuAD", dataset.corpus, dataset.documents, mine),
        ):
            store = ensure_corpus_store(corpus=corpus, documents=texts, on_embedded=lambda n: None)
            asked = (one for one in questions if one.half == half)
            sets[name] += both_ways(store, list(texts), asked)
    for name, pairs in sets.items():
        one, parts = (sum(pair[way] for pair in pairs) / len(pairs) for way in (0, 1))
        report.add(f"{name}: both passages, one search", one)
        report.add(f"{name}: both passages, decomposed", parts)
        least = 0.1 if name == "made up" else 0
        report.add(f"{name}: decomposed above one search", parts - one, least=least)


def both_ways(
    store: models.Store, ids: list[str], questions: Iterable[BridgedQuestion]
) -> list[tuple[bool, bool]]:
    """Return for each question whether both passages are found: by one search, and decomposed."""
    found = []
    for question in questions:
        parts = ask(store, question.text, "rules", None)
        one = ask(store, question.text, "none", parts.top_k)
        found.append((_holds(one, ids, question), _holds(parts, ids, question)))
    return found


def ask(store: models.Store, query: str, way: str, top_k: int | None) -> SearchResult:
    """Return what is found by a way of decomposition."""
    settings = store.retrieval_settings.but(decomposition=way, top_k=top_k)
    return retrieve(
        query=query,
        scope=Scope.operator(),
        stores=[store],
        settings=settings,
        purpose="evaluation",
    )


def _holds(result: SearchResult, ids: list[str], question: BridgedQuestion) -> bool:
    seen = {
        ids[page - 1]
        for hit in result.hits
        if hit.page_first
        for page in range(hit.page_first, (hit.page_last or hit.page_first) + 1)
    }
    return seen.issuperset(question.passages)


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the test sets")
    parser.add_argument("--tune", action="store_true", help="ask the halves to tune on")
    options = parser.parse_args()
    report = Report("multi-hop questions")
    call_command("migrate", verbosity=0)
    try:
        measure(report, options.data, HALVES[0] if options.tune else HALVES[1])
    except RAGError as error:
        print(error, file=sys.stderr)
        return 1
    if not options.tune:
        report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
