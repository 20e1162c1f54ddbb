"""Paired comparison of two evaluation runs, question by question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag import models
from rag.core.errors import InvalidInputError
from rag.evals.metrics import MAIN_MEASURE, MEASURES
from rag.evals.paired import PairedComparison, compare_paired


@dataclass(frozen=True, slots=True)
class QuestionChange:
    """One question in both runs; ranks are those at which expected passages were found."""

    question_id: int
    query: str
    before: Mapping[str, float]
    after: Mapping[str, float]
    ranks_before: Sequence[int]
    ranks_after: Sequence[int]

    @property
    def difference(self) -> float:
        """Return by how much nDCG@10 changed."""
        return round(self.after[MAIN_MEASURE] - self.before[MAIN_MEASURE], 6)


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The questions of both runs, the worst change first, and each measure paired over them.

    ``n_only_before`` and ``n_only_after`` count questions that only one run has.
    """

    questions: tuple[QuestionChange, ...]
    measures: Mapping[str, PairedComparison]
    n_only_before: int
    n_only_after: int

    @property
    def main(self) -> PairedComparison:
        """Return the comparison of nDCG@10, by which gates decide."""
        return self.measures[MAIN_MEASURE]

    def is_worse_by(self, margin: float) -> bool:
        """Return whether the mean nDCG@10 fell by more than ``margin`` (0 to 1)."""
        return self.main.difference < -margin


def compare_runs(*, before: models.EvaluationRun, after: models.EvaluationRun) -> RunComparison:
    """Return the paired comparison of two runs of one store over the questions that both asked.

    Raises InvalidInputError for runs of different stores or without figures, and when no question
    is in both.
    """
    if before.store_id != after.store_id:
        raise InvalidInputError("The runs are of different stores.", hint="Take runs of one store.")
    for run in (before, after):
        if run.state != models.EvaluationRun.State.DONE:
            raise InvalidInputError(
                "Run {id} has no figures.", hint="Take runs that are done.", id=run.pk
            )
    first, second = _rows(before), _rows(after)
    both = [key for key in first if key in second]
    if not both:
        raise InvalidInputError("No question is in both runs.", hint="Take runs that share some.")
    measures = {
        name: compare_paired(
            [first[key]["metrics"][name] for key in both],
            [second[key]["metrics"][name] for key in both],
        )
        for name in MEASURES
    }
    changes = [
        QuestionChange(
            key,
            second[key]["query"],
            first[key]["metrics"],
            second[key]["metrics"],
            first[key]["ranks"],
            second[key]["ranks"],
        )
        for key in both
    ]
    changes.sort(key=lambda one: (one.difference, one.question_id))
    return RunComparison(tuple(changes), measures, len(first) - len(both), len(second) - len(both))


def _rows(run: models.EvaluationRun) -> dict[int, dict[str, Any]]:
    rows = run.results.filter(question__isnull=False).order_by("question")
    values = rows.values("question_id", "query", "metrics", "ranks")
    return {row["question_id"]: dict(row) for row in values}
