"""What answers rest on, as far as it may be read today. In: messages, who asks. Out: without words.

An answer stays with whoever was given it; the words of a passage go with the right to read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agents import models
from agents.memory.recall import readable_chunks
from rag.core.access import Scope

Evidence = tuple[list[dict[str, Any]], list[dict[str, Any]]]
_EMPTY: Mapping[str, Mapping[str, Any]] = {
    "sources": {"content": "", "highlights": [], "is_gone": True},
    "citations": {"quote": "", "found": "", "is_gone": True},
}


def visible_evidence(*, messages: Sequence[models.Message], scope: Scope) -> dict[int, Evidence]:
    """Return the sources and citations of each message by its id.

    Those of chunks that are gone, or that ``scope`` may not read any more, are empty and marked
    ``is_gone``.
    """
    readable = readable_chunks((pk for message in messages for pk in _chunks(message)), scope)
    return {
        message.pk: (
            _shown(message.sources, "sources", readable),
            _shown(message.citations, "citations", readable),
        )
        for message in messages
    }


def _chunks(message: models.Message) -> Iterable[int]:
    for one in (*message.sources, *message.citations):
        if (pk := one.get("chunk_id")) is not None:
            yield pk


def _shown(
    evidence: Sequence[Mapping[str, Any]], kind: str, readable: frozenset[int]
) -> list[dict[str, Any]]:
    return [
        {**one, **(_EMPTY[kind] if _is_gone(one.get("chunk_id"), readable) else {})}
        for one in evidence
    ]


def _is_gone(chunk_id: int | None, readable: frozenset[int]) -> bool:
    return chunk_id is not None and chunk_id not in readable
