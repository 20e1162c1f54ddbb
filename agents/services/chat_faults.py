"""How an answer's end is told that no model is to blame for. In: what happened. Out: an error."""

from __future__ import annotations

from typing import Any

from rag.core.errors import RAGError


def fault_of_answer(error: BaseException) -> dict[str, Any]:
    """Return how an error that is no RAGError is told: its kind, and nothing that it holds."""
    return RAGError(
        "The answer has a fault ({kind}).", hint="The server's log says where.",
        kind=type(error).__name__,
    ).as_dict()  # fmt: skip


def interruption() -> dict[str, Any]:
    """Return how an answer is told whose process ends before it does."""
    return RAGError(
        "The server ended while the answer was being written.", hint="Ask again."
    ).as_dict()
