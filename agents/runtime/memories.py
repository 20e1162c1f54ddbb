"""Memory port: how runs of flows recall what is known of a person, and remember an exchange.

The wing that keeps memories registers itself; without one nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from rag.core.access import Scope


class KeepsExchange(Protocol):
    """Keeps a question with its answer, for one person and project."""

    async def __call__(
        self, *, question: str, answer: str, scope: Scope, project: str, chunk_ids: Collection[int]
    ) -> None:
        """Keep it where the person wants that; raise RAGError."""


@dataclass(frozen=True, slots=True)
class MemoryPort:
    """``recall`` takes query, scope and project and returns a text with what it rests on."""

    recall: Callable[[str, Scope, str], tuple[str, set[int]]]
    keep: KeepsExchange


_PORTS: list[MemoryPort] = []


def register_memory(port: MemoryPort) -> None:
    """Let runs recall and remember by this; the last one counts."""
    _PORTS[:] = [port]


def recall_memory(*, query: str, scope: Scope, project: str) -> tuple[str, set[int]]:
    """Return what is remembered of a person that bears on a question, and what it rests on."""
    return _PORTS[0].recall(query, scope, project) if _PORTS else ("", set())


async def keep_exchange(
    *, question: str, answer: str, scope: Scope, project: str, chunk_ids: Collection[int]
) -> None:
    """Remember an exchange; raise RAGError."""
    for port in _PORTS:
        await port.keep(
            question=question, answer=answer, scope=scope, project=project, chunk_ids=chunk_ids
        )
