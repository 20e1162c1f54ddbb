"""Recalled memory: what is remembered of a person, within a token budget. Knows no Django."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

EPISODIC, SEMANTIC = "episodic", "semantic"


@dataclass(frozen=True, slots=True)
class RecalledMemory:
    """A fact, or a question with its answer; ``score`` is its likeness to the query, 0 to 1.

    ``chunk_ids`` is what the answer rests on: who is told it rests on that as well.
    """

    key: str
    kind: str
    text: str
    answer: str = ""
    score: float = 0.0
    at: datetime | None = None
    project: str = ""
    chunk_ids: tuple[int, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-safe form."""
        return {
            "id": self.key,
            "kind": self.kind,
            "text": self.text,
            "answer": self.answer,
            "score": round(self.score, 3),
            "project": self.project,
            "at": self.at.isoformat() if self.at else None,
        }


def within_budget(
    memories: Sequence[RecalledMemory], max_tokens: int, count: Callable[[str], int]
) -> list[RecalledMemory]:
    """Return as many as ``max_tokens`` hold, in order; answers give way before questions do."""
    kept: list[RecalledMemory] = []
    for memory in memories:
        spent = count(memory.text)
        if spent > max_tokens:
            continue
        answer = memory.answer
        while answer and (n := count(answer)) > max_tokens - spent:
            answer = answer[: min(len(answer) - 1, len(answer) * max(0, max_tokens - spent) // n)]
        max_tokens -= spent + (count(answer) if answer else 0)
        is_cut = len(answer) < len(memory.answer)
        kept.append(replace(memory, answer=answer.rstrip() + "…" if answer and is_cut else answer))
    return kept
