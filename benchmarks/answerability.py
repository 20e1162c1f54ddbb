"""Answerability benchmark: questions that the documents cannot answer, and right ones.

Run ``python -m benchmarks.answerability [--data DIR] [--every N] [--fit] [--tune]``. Off-topic
questions are those of another set, or have the whole article that answers them switched off; on
topic but not there: the passage that answers is switched off. ``--fit`` makes the classifier's
weights from one half of the articles and claims; what is reported is of the other half, and only
with ``--tune``, which keeps nothing, of the first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import django
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup()

from django.core.management import call_command  # noqa: E402

from benchmarks.record import Report  # noqa: E402 - Django's settings come first
from rag import models  # noqa: E402
from rag.core.access import Scope  # noqa: E402
from rag.core.analysis import Answerability, MissingTerm  # noqa: E402
from rag.core.errors import RAGError  # noqa: E402
from rag.evals.datasets import Dataset, read_dataset  # noqa: E402
from rag.services.evaluation import ensure_corpus_store  # noqa: E402
from rag.services.search import retrieve  # noqa: E402
from rag.stages.query import answerability as classifier  # noqa: E402
from rag.stages.query.references import IDENTIFIER  # noqa: E402

DATA = Path("../shared/data")
# Abstracts beside those that are judged; more would only take longer to embed.
N_OTHERS = 700
# Of the right questions of the tuned half these shares may fall below each threshold.
LOST = {"on_topic": 0.02, "answerable": 0.05}
COUNTED = ("questions", "across")
RIDGE = 1.0
N_TIMED = 300
CODES = (
    "The {0} holds 400 litres and weighs 85 kg. Its smaller brother, the {1}, holds 250 litres.",
    "Valve {2} opens at six bar. Spare parts of {3} are listed in the annex.",
    "{4} 的容积为 400 升，重 85 公斤。较小的 {5} 容积为 250 升。",
    "阀门 {6} 在 6 巴时开启。{7} 的备件见附录。",
)
KNOWN = ("HX-400", "HX-250", "VB-12/7", "QX-4037-B", "PN-1036", "PN-1024", "MX500", "ZX-9000-Q")
UNKNOWN = ("HX-900", "HX-410", "VB-19/7", "QX-4137-C", "PN-1136", "PN-2024", "MX700", "ZX-9100-Q")
ASKED = (
    "What is the volume of the {}?",
    "How much does {} weigh?",
    "{}的容积是多少？",
    "{} 有多重？",
)
# Years and numbers of articles that no text has.
OTHERS = (
    "What does article 47 say about valves?",
    "第九十三条对阀门是怎么规定的？",
    "What happened to the valve in 1987?",
    "1987年的容积是多少？",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One question as it was searched: what the classifier was told, and what it should say.

    ``kind`` is right, off (another set's question), hidden (its article switched off) or near (its
    passage switched off). Without hidden ones a store would tell what is off.
    """

    kind: str
    group: str
    is_tuned: bool
    evidence: classifier.SearchEvidence
    missing: Sequence[MissingTerm]

    @property
    def verdict(self) -> str:
        judged = classifier.judge_answerability(self.evidence, self.missing)
        return judged.verdict if judged else "answerable"


class Corpus:
    """A data set in a store of its own, whose documents can be switched off."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.store = ensure_corpus_store(
            corpus=f"answerability {dataset.corpus}",
            documents=dataset.documents,
            on_embedded=lambda n: None,
        )
        ids, chunks = list(dataset.documents), self.store.chunks.live()
        self._chunks = {ids[n]: pk for n, pk in chunks.values_list("ordinal", "pk")}

    def ask(self, query: str, hidden: Sequence[str] = ()) -> tuple[Any, Any]:
        """Return evidence and missing terms of a question, some documents switched off."""
        chunks = models.Chunk.objects.filter(pk__in=[self._chunks[one] for one in hidden])
        heard: list[tuple[Any, Any]] = []

        def hear(evidence: Any, missing: Any) -> Answerability | None:
            heard.append((evidence, missing))
            return None

        chunks.update(enabled=False)
        try:
            with patch("rag.services.search.confidence.judge_answerability", hear):
                self.search(query)
        finally:
            chunks.update(enabled=True)
        return heard[0]

    def search(self, query: str) -> Any:
        """Return what the store's own settings find."""
        return retrieve(
            query=query, scope=Scope.operator(), stores=[self.store], purpose="evaluation"
        )


def collect(data: Path, every: int, *, is_tuning: bool) -> Iterator[Case]:
    """Yield the cases of all sets and of the questions of each put to the others.

    ``is_tuning`` leaves the half out that is reported.
    """
    english, chinese = (read_dataset(data / name) for name in ("xquad-en", "xquad-zh"))
    claims = _limited(read_dataset(data / "scifact"))
    en, zh, sci = Corpus(english), Corpus(chinese), Corpus(claims)
    for corpus, other, across in ((en, zh, english), (zh, en, chinese)):
        chosen = list(across.queries)[::every]
        for number, key in enumerate(tqdm(chosen, file=sys.stderr, leave=False)):
            query, gold = across.queries[key], list(across.judgements[key])
            half = _is_tuned(gold[0].partition("p")[0])
            if is_tuning and not half:
                continue
            yield Case("right", "questions", half, *corpus.ask(query))
            yield Case("near", "questions", half, *corpus.ask(query, gold))
            article = _article_of(across, gold[0])
            yield Case("hidden", "questions", half, *corpus.ask(query, article))
            if number % 2 == 0:
                group = "questions" if corpus is en else "across"
                yield Case("off", group, half, *sci.ask(query))
                yield Case("right", "across", half, *other.ask(query))
                yield Case("near", "across", half, *other.ask(query, gold))
                yield Case("hidden", "across", half, *other.ask(query, article))
    for key, query in tqdm(claims.queries.items(), file=sys.stderr, leave=False):
        gold, half = list(claims.judgements.get(key, {})), _is_tuned(key)
        if is_tuning and not half:
            continue
        yield Case("off", "claims", half, *en.ask(query))
        yield Case("off", "across", half, *zh.ask(query))
        if gold:
            yield Case("right", "claims", half, *sci.ask(query))
            yield Case("near", "claims", half, *sci.ask(query, gold))


def _limited(dataset: Dataset) -> Dataset:
    judged = {document for graded in dataset.judgements.values() for document in graded}
    others = [key for key in dataset.documents if key not in judged][:N_OTHERS]
    kept = {key: dataset.documents[key] for key in dataset.documents if key in {*judged, *others}}
    return Dataset(dataset.corpus, dataset.name, kept, dataset.queries, dataset.judgements)


def _article_of(dataset: Dataset, document: str) -> list[str]:
    article = document.partition("p")[0]
    return [key for key in dataset.documents if key.partition("p")[0] == article]


def _is_tuned(name: str) -> bool:
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 0


def fit(cases: Sequence[Case]) -> None:
    """Write the weights that the tuned half gives."""
    tuned = [case for case in cases if case.is_tuned and case.evidence.hits]
    found = [(case, classifier.answerability_features(case.evidence)) for case in tuned]
    told: dict[str, Any] = {}
    for name, features in classifier.FEATURES.items():
        # Words alone are judged where no similarity is known; here all have both.
        own = {"words": "both"}.get(name, name)
        rows = [(case, one.values) for case, one in found if one.case == own]
        x = np.array([[values[feature] for feature in features] for _, values in rows])
        kinds = np.array([case.kind for case, _ in rows])
        groups = np.array([case.group for case, _ in rows])
        # What lacks a code or name of the question is warned of in any case.
        is_warned = np.array([bool(case.missing) for case, _ in rows])
        told[name] = {"features": list(features)}
        for head, kept in (("answerable", kinds != ""), ("on_topic", kinds != "near")):
            is_right = kinds[kept] == "right"
            p, told[name][head] = _head(x[kept], is_right)
            if head == "answerable":
                p = np.where(is_warned[kept], 0.0, p)
            counted = p[is_right & np.isin(groups[kept], COUNTED)]
            told[name][head]["threshold"] = round(float(np.quantile(counted, LOST[head])), 4)
    made = {"made_by": "python -m benchmarks.answerability --fit", "cases": told}
    classifier.WEIGHTS.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def _head(x: NDArray[Any], is_right: NDArray[Any]) -> tuple[NDArray[Any], dict[str, Any]]:
    """Return the probabilities of a logistic regression, both classes weighing the same, and it."""
    mean, width = x.mean(axis=0), x.std(axis=0) + 1e-9
    z = np.hstack([(x - mean) / width, np.ones((len(x), 1))])
    y = is_right.astype(float)
    share = np.where(is_right, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
    penalty = np.diag([RIDGE] * x.shape[1] + [0.0])
    w = np.zeros(z.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-z @ w))
        gradient = z.T @ (share * (y - p)) - penalty @ w
        curve = (z * (share * p * (1 - p))[:, None]).T @ z + penalty
        w = w + np.linalg.solve(curve, gradient)
    p = 1 / (1 + np.exp(-z @ w))
    weights = w[:-1] / width
    return p, {
        "weights": [round(float(one), 4) for one in weights],
        "bias": round(float(w[-1] - weights @ mean), 4),
    }


def report_cases(report: Report, cases: Sequence[Case], *, is_tuning: bool) -> None:
    """Print which shares of one half are refused, or at least warned of."""
    held = [case for case in cases if case.is_tuned == is_tuning]
    for group in ("questions", "claims", "across"):
        is_kept = group != "across"
        for kind, is_warned, goal in (
            ("off", False, {"least": 0.90}),
            ("hidden", False, {}),
            ("right", False, {"most": 0.03}),
            ("near", True, {"least": 0.60}),
            ("right", True, {"most": 0.05}),
        ):
            own = [case.verdict for case in held if (case.group, case.kind) == (group, kind)]
            if not own:
                continue
            wanted = ("off_topic", "doubtful") if is_warned else ("off_topic",)
            value = sum(verdict in wanted for verdict in own) / len(own)
            what = "refused or warned" if is_warned else "refused"
            limits = goal if group == "questions" else {}
            name = f"{group}: {kind}, {what} (of {len(own)})"
            report.add(name, value, is_kept=is_kept, **limits)


def report_codes(report: Report) -> None:
    """Print how many questions with a code, year or article that nobody has are told of it."""
    documents = {str(n): text.format(*KNOWN) for n, text in enumerate(CODES)}
    corpus = Corpus(Dataset("codes", "codes", documents, {}, {}))
    asked = [form.format(code) for code in UNKNOWN for form in ASKED]
    told = [bool(corpus.search(query).answerability.missing) for query in [*asked, *OTHERS]]
    report.add(f"nobody has it: told (of {len(told)})", sum(told) / len(told), least=1)
    known = [form.format(code) for code in KNOWN for form in ASKED]
    told = [bool(corpus.search(query).answerability.missing) for query in known]
    report.add(f"a code that is there: told (of {len(told)})", sum(told) / len(told), most=0)
    assert all(IDENTIFIER.fullmatch(code) for code in (*KNOWN, *UNKNOWN))


def report_cost(report: Report, data: Path) -> None:
    """Print how long the judgement of one search takes, its look-ups in the index among it."""
    corpus = Corpus(read_dataset(data / "xquad-en"))
    times = [
        corpus.search(query).timings_ms["judge"]
        for query in list(corpus.dataset.queries.values())[:N_TIMED]
    ]
    report.add("judgement of a search, median ms", float(np.median(times)), most=1)
    report.add("judgement of a search, p95 ms", float(np.quantile(times, 0.95)))


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the test sets")
    parser.add_argument("--every", type=int, default=3, help="take every n-th question")
    parser.add_argument("--tune", action="store_true", help="of the tuned half; keeps nothing")
    parser.add_argument("--fit", action="store_true", help="make the weights from the tuned half")
    options = parser.parse_args()
    report = Report("answerability")
    call_command("migrate", verbosity=0)
    try:
        cases = list(collect(options.data, options.every, is_tuning=options.tune))
        if options.fit:
            fit(cases)
            classifier.read_weights.cache_clear()
        report_cases(report, cases, is_tuning=options.tune)
        report_codes(report)
        report_cost(report, options.data)
    except RAGError as error:
        print(error, file=sys.stderr)
        return 1
    if not options.tune:
        report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
