"""Query analysis benchmark: accuracy of the rules on labelled questions.

Run ``python -m benchmarks.analysis``. The rules were written with ``analysis_dev.jsonl`` before the
eyes; ``analysis_test.jsonl`` was written after them and is only scored.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.record import Report
from rag.core.analysis import COMPLEXITIES, INTENTS, Entity, QueryAnalysis
from rag.stages.query.analyze import analyze_query

FOLDER = Path(__file__).resolve().parent / "data"
N_TIMED = 500


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question with what a person says that it wants."""

    text: str
    language: str
    intent: str
    complexity: str
    entities: frozenset[Entity]


def read_questions(name: str) -> list[LabelledQuestion]:
    """Return the questions of the set ``dev`` or ``test``."""
    lines = (FOLDER / f"analysis_{name}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        LabelledQuestion(**{**row, "entities": frozenset(Entity(**one) for one in row["entities"])})
        for row in rows
    ]


def read_vocabulary() -> dict[str, Any]:
    """Return the names that the questions' stores would know."""
    text = (FOLDER / "analysis_vocabulary.json").read_text(encoding="utf-8")
    vocabulary: dict[str, Any] = json.loads(text)
    return vocabulary


def score(
    questions: Sequence[LabelledQuestion], analyses: Sequence[QueryAnalysis]
) -> dict[str, float]:
    """Return accuracies of intent (also by intent, by language) and complexity, entities' F1."""
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for question, analysis in zip(questions, analyses, strict=True):
        is_intent = question.intent == analysis.intent
        for name in ("intent", f"intent {question.intent}", f"intent in {question.language}"):
            total[name] += 1
            right[name] += is_intent
        for name in ("complexity", f"complexity {question.complexity}"):
            total[name] += 1
            right[name] += question.complexity == analysis.complexity
        right["entities F1"] += 2 * len(question.entities & set(analysis.entities))
        total["entities F1"] += len(question.entities) + len(analysis.entities)
    return {name: right[name] / n for name, n in total.items()}


def measure(report: Report) -> None:
    """Print the figures of both sets, and the time of one analysis."""
    vocabulary = read_vocabulary()
    for name in ("dev", "test"):
        questions = read_questions(name)
        figures = score(questions, [analyze_query(one.text, vocabulary) for one in questions])
        is_test = name == "test"
        label = "held out" if is_test else "seen"
        report.add(f"{label}: questions", len(questions), is_kept=is_test)
        report.add(
            f"{label}: intent", figures["intent"], least=0.85 if is_test else None, is_kept=is_test
        )
        report.add(f"{label}: complexity", figures["complexity"], is_kept=is_test)
        report.add(f"{label}: entities F1", figures["entities F1"], is_kept=is_test)
        details = [f"intent {intent}" for intent in INTENTS] + ["intent in zh", "intent in en"]
        details += [f"complexity {complexity}" for complexity in COMPLEXITIES]
        for detail in details:
            report.add(f"{label}: {detail}", figures[detail], is_kept=False)
    times = time_rules([one.text for one in read_questions("dev")], vocabulary)
    report.add("rules: p50 ms", median(times))
    report.add("rules: p95 ms", quantiles(times, n=20)[-1], most=1)


def time_rules(texts: Sequence[str], vocabulary: dict[str, Any]) -> list[float]:
    """Return the milliseconds of ``N_TIMED`` analyses after a first one of each text."""
    chosen = [texts[i % len(texts)] for i in range(N_TIMED)]
    for text in chosen:
        analyze_query(text, vocabulary)
    times = []
    for text in chosen:
        started = time.perf_counter()
        analyze_query(text, vocabulary)
        times.append((time.perf_counter() - started) * 1e3)
    return times


def main() -> int:
    """Measure everything and return the exit status; a missed goal is no error."""
    report = Report("query analysis")
    measure(report)
    report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
