"""Episodic memory: a question and its answer, cleaned and cut to what is stored."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agents.chat.memory.facts import memory_key, mentions_secret, storable_text

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


def make_episode(question: str, answer: str) -> Episode | None:
    """Return what is kept, each part cut; None for a question without words or with a secret."""
    question = " ".join(storable_text(question).split())[:MAX_QUESTION]
    answer = _MARK.sub("", storable_text(answer)).strip()
    subject = memory_key(question)
    if not subject or mentions_secret(question) or mentions_secret(answer):
        return None
    return Episode(subject, question, answer[:MAX_ANSWER])
