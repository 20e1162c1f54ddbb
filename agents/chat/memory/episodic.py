"""What is kept of a question and its answer. In: both as they were. Out: both, cut and clean."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agents.chat.memory.facts import is_secret, plain, subject_of

MAX_QUESTION, MAX_ANSWER = 1000, 1500
_MARK = re.compile(r"\[\d{1,3}\]")


@dataclass(frozen=True, slots=True)
class Episode:
    """What is kept of an exchange; ``subject`` is the question, folded."""

    subject: str
    question: str
    answer: str

    @property
    def meaning(self) -> str:
        """Return the text that it is found by."""
        return f"{self.question}\n{self.answer[:300]}".strip()


def episode_of(question: str, answer: str) -> Episode | None:
    """Return what is kept, each part cut; None for a question without words or with a secret."""
    question = " ".join(plain(question).split())[:MAX_QUESTION]
    answer = _MARK.sub("", plain(answer)).strip()
    subject = subject_of(question)
    if not subject or is_secret(question) or is_secret(answer):
        return None
    return Episode(subject, question, answer[:MAX_ANSWER])
