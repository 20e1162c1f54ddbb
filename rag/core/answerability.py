"""Answerability: whether what was found can answer a question, and what of it nobody mentions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

# What is done where the passages may not hold the answer.
UNANSWERABLE_WAYS = ("answer", "warn", "refuse")
AnswerabilityVerdict = Literal["answerable", "doubtful", "off_topic"]


@dataclass(frozen=True, slots=True)
class MissingTerm:
    """A code, number, date or name of a question that no readable document holds.

    ``nearest`` is the most similar one that a passage holds, empty where there is none.
    """

    text: str
    nearest: str = ""


@dataclass(frozen=True, slots=True)
class Answerability:
    """How likely passages answer a question, 0 to 1, and what follows from it.

    ``off_topic`` passages are not about the question, ``doubtful`` ones may not hold its answer.
    """

    probability: float
    verdict: AnswerabilityVerdict
    missing: tuple[MissingTerm, ...] = ()

    @property
    def most_confidence(self) -> float:
        """Return the confidence that no answer from these passages exceeds."""
        return {"answerable": 1.0, "doubtful": 0.5, "off_topic": 0.2}[self.verdict]

    def is_refused(self, way: str) -> bool:
        """Return whether nothing is answered; ``way`` is one of ``UNANSWERABLE_WAYS``."""
        refused = {"answer": (), "warn": ("off_topic",), "refuse": ("off_topic", "doubtful")}
        return self.verdict in refused[way]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-safe form."""
        missing = [{"text": one.text, "nearest": one.nearest} for one in self.missing]
        return {"probability": self.probability, "verdict": self.verdict, "missing": missing}
