"""Quality benchmark: nDCG, recall and MRR of the default search on judged questions.

Run ``python -m benchmarks.quality [--data DIR]``. Corpora are indexed into stores “eval ...” of the
configured database and kept there; nothing else is cached, every question is embedded anew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import django
import opencc
import rjieba
from tqdm import tqdm

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup()

from django.core.management import call_command  # noqa: E402

from benchmarks.record import Report  # noqa: E402 - Django's settings come first
from rag.core.access import Scope  # noqa: E402
from rag.core.errors import RAGError  # noqa: E402
from rag.evals.datasets import Dataset, read_dataset  # noqa: E402
from rag.services.evaluation.datasets import (  # noqa: E402
    ensure_corpus_store,
    evaluate_dataset,
)
from rag.services.search import retrieve  # noqa: E402

DATA = Path("../shared/data")
SETS = {"xquad-zh": 0.970, "xquad-en": 0.980, "scifact": None}
FOLDS = 4
N_CODES = 20
N_WORDS = 40
TOP_K = 10
_TWO_HAN = re.compile(r"[\u4e00-\u9fff]{2}")
_ONE_HAN = re.compile(r"[\u4e00-\u9fff]")


def measure_sets(report: Report, data: Path) -> None:
    """Print each set's figures in each mode; hybrid should not be below either leg."""
    for name, goal in SETS.items():
        found = run_modes(report, read_dataset(data / name), goal)
        best = max(found["vector"], found["bm25"])
        report.add(f"{name}: hybrid above the better leg, nDCG@10", found["hybrid"] - best, least=0)
    across = read_dataset(data / "xquad-en", query_folder=data / "xquad-zh")
    run_modes(report, across, 0.80)


def run_modes(report: Report, dataset: Dataset, goal: float | None) -> dict[str, float]:
    """Print a dataset's figures in all modes and return the nDCG@10 of each."""
    found: dict[str, float] = {}
    for mode in ("vector", "bm25", "hybrid"):
        figures = evaluate(dataset, mode)
        found[mode] = figures["nDCG@10"]
        least = goal if mode == "hybrid" else None
        is_hybrid = mode == "hybrid"
        name = f"{dataset.name}: {mode}, nDCG@10"
        report.add(name, figures["nDCG@10"], least=least, is_kept=is_hybrid)
        report.add(f"{dataset.name}: {mode}, R@1", figures["R@1"], is_kept=False)
        report.add(f"{dataset.name}: {mode}, R@10", figures["R@10"], is_kept=False)
    return found


def measure_traditional(report: Report, data: Path) -> None:
    """Print what XQuAD's Chinese loses in traditional characters: texts and questions, or one."""
    plain = read_dataset(data / "xquad-zh")
    turned = traditional(plain)
    questions = replace(turned, corpus=plain.corpus, documents=plain.documents)
    texts = replace(turned, name=plain.name, queries=plain.queries)
    for name, dataset, mode in (
        ("texts and questions", turned, "vector"),
        ("texts and questions", turned, "hybrid"),
        ("questions", questions, "hybrid"),
        ("texts", texts, "hybrid"),
    ):
        lost = evaluate(plain, mode)["nDCG@10"] - evaluate(dataset, mode)["nDCG@10"]
        title = f"traditional {name}: {mode}, nDCG@10 lost"
        report.add(title, lost, most=0.005 if mode == "hybrid" else None, is_kept=mode == "hybrid")


def traditional(dataset: Dataset) -> Dataset:
    """Return a dataset in traditional characters, as OpenCC writes them without Taiwan's words."""
    convert = opencc.OpenCC("s2t").convert
    return replace(
        dataset,
        corpus=f"{dataset.corpus}-traditional",
        name=f"{dataset.name} in traditional characters",
        documents={key: convert(text) for key, text in dataset.documents.items()},
        queries={key: convert(text) for key, text in dataset.queries.items()},
    )


def measure_mixed(report: Report, data: Path) -> None:
    """Print how Chinese questions find English answers among Chinese texts of other articles."""
    totals = {"R@1": 0.0, "R@10": 0.0, "nDCG@10": 0.0}
    n = 0
    for dataset in mixed_pools(data):
        figures = evaluate(dataset, "hybrid")
        n += len(dataset.queries)
        for name in totals:
            totals[name] += figures[name] * len(dataset.queries)
    report.add("mixed pool: hybrid, R@1", totals["R@1"] / n, least=0.50)
    report.add("mixed pool: hybrid, R@10", totals["R@10"] / n, least=0.80)
    report.add("mixed pool: hybrid, nDCG@10", totals["nDCG@10"] / n, is_kept=False)


def mixed_pools(data: Path) -> Iterator[Dataset]:
    """Yield pools of all English paragraphs and three quarters of the Chinese articles.

    The questions are those of the missing quarter, so only English paragraphs answer them.
    """
    zh, en = read_dataset(data / "xquad-zh"), read_dataset(data / "xquad-en")
    place = {article: i for i, article in enumerate(dict.fromkeys(map(_article, en.documents)))}
    for fold in range(FOLDS):
        asked = {
            query: graded
            for query, graded in zh.judgements.items()
            if all(place[_article(document)] % FOLDS == fold for document in graded)
        }
        documents = {f"en {key}": text for key, text in en.documents.items()}
        documents |= {
            f"zh {key}": text
            for key, text in zh.documents.items()
            if place[_article(key)] % FOLDS != fold
        }
        name = f"mixed-{fold}"
        questions = {query: zh.queries[query] for query in asked}
        graded_en = {q: {f"en {d}": n for d, n in graded.items()} for q, graded in asked.items()}
        yield Dataset(name, name, documents, questions, graded_en)


def _article(document: str) -> str:
    return document.partition("p")[0]


def measure_codes(report: Report, data: Path) -> None:
    """Print how often a part number that stands in one text only is among the first three."""
    texts = read_dataset(data / "xquad-en").documents, read_dataset(data / "xquad-zh").documents
    documents = {f"{i} {key}": text for i, some in enumerate(texts) for key, text in some.items()}
    chosen = list(documents)[:: len(documents) // N_CODES][:N_CODES]
    codes = {key: f"QX-{4000 + 37 * i}-{'ABCDE'[i % 5]}" for i, key in enumerate(chosen)}
    for key, code in codes.items():
        first, stop, rest = re.split(r"([.。])", documents[key], maxsplit=1)
        documents[key] = f"{first} ({code}){stop}{rest}"
    forms = ("{}", "What is said about {} in the documentation?", "{}是什么？")
    find = searcher("codes", documents)
    ranks = [find(form.format(code), holds(code)) for code in codes.values() for form in forms]
    report.add("rare code: share among the first three", share(ranks, 3), least=1)


def measure_words(report: Report, data: Path) -> None:
    """Print how many short Chinese words, asked alone, are found in the first hits."""
    dataset = read_dataset(data / "xquad-zh")
    find = searcher(dataset.corpus, dataset.documents)
    rows = (data / "xquad-zh" / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    spans = {span for row in rows for span in json.loads(row)["answers"]}
    answers = sorted(filter(_TWO_HAN.fullmatch, spans))
    words = answers[:: max(1, len(answers) // N_WORDS)][:N_WORDS]
    ranks = [find(word, holds(word)) for word in words]
    report.add("two-character words found", sum(r <= TOP_K for r in ranks), least=len(words))
    singles = sorted(
        {
            word
            for text in dataset.documents.values()
            for word in rjieba.cut(text)
            if _ONE_HAN.fullmatch(word)
        }
    )
    ranks = [find(word, holds(word)) for word in tqdm(singles, file=sys.stderr)]
    report.add(f"one-character words found, of {len(singles)}", share(ranks, TOP_K), least=1)


Find = Callable[[str, Callable[[str], bool]], int]


def searcher(corpus: str, documents: Mapping[str, str]) -> Find:
    """Return a search over ``documents`` that tells the rank of the first hit that will do."""
    with Bar(f"indexing {corpus}", len(documents)) as bar:
        store = ensure_corpus_store(corpus=corpus, documents=documents, on_embedded=bar.move)
    settings = store.retrieval_settings.but(mode="hybrid", top_k=TOP_K)

    def find(query: str, will_do: Callable[[str], bool]) -> int:
        result = retrieve(
            query=query,
            scope=Scope.operator(),
            stores=[store],
            settings=settings,
            purpose="evaluation",
        )
        return next((hit.rank for hit in result.hits if will_do(hit.text)), TOP_K + 1)

    return find


_MEASURED: dict[tuple[str, str, str], dict[str, float]] = {}


def evaluate(dataset: Dataset, mode: str) -> dict[str, float]:
    """Return a dataset's figures in one mode, measured once."""
    key = (dataset.corpus, dataset.name, mode)
    if key not in _MEASURED:
        _MEASURED[key] = _evaluate(dataset, mode)
    return _MEASURED[key]


def _evaluate(dataset: Dataset, mode: str) -> dict[str, float]:
    with Bar(f"{dataset.name}, {mode}", len(dataset.queries)) as bar:
        run = evaluate_dataset(
            dataset=dataset,
            mode=mode,
            on_progress=lambda stage, n, total: bar.move(n if stage == "searching" else 0),
        )
    return run.figures


def holds(word: str) -> Callable[[str], bool]:
    """Return whether a text holds ``word``, as a function."""
    return lambda text: word in text


def share(ranks: Sequence[int], most: int) -> float:
    """Return which part of the ranks is at most ``most``."""
    return sum(rank <= most for rank in ranks) / len(ranks)


class Bar:
    """A progress bar on the error stream that vanishes when it is done."""

    def __init__(self, name: str, total: int) -> None:
        self._bar = tqdm(total=total, desc=name, file=sys.stderr, leave=False)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def move(self, n: int) -> None:
        """Move on by ``n``."""
        self._bar.update(n)


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the test sets")
    options = parser.parse_args()
    report = Report("quality")
    call_command("migrate", verbosity=0)
    try:
        measure_sets(report, options.data)
        measure_traditional(report, options.data)
        measure_mixed(report, options.data)
        measure_codes(report, options.data)
        measure_words(report, options.data)
    except RAGError as error:
        print(error, file=sys.stderr)
        return 1
    report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
