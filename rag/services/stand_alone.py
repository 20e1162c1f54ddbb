"""A question without its conversation, by rules. In: it and the one before. Out: one question."""

from __future__ import annotations

from rag.stages.join_question import join_question


def stand_alone(*, query: str, before: str) -> tuple[str, str]:
    """Return the question made to stand alone, and by which rule: ``entity`` or ``joined``."""
    return join_question(query, before)
