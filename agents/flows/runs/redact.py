"""Redaction of run results: hits of chunks that are deleted or no longer readable lose their text.

Hits are found wherever they lie in nested JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agents.runtime.scopes import readable_chunks
from rag.core.access import Scope
from rag.core.hits import hit_chunk_ids

_EMPTY = {"content": "", "highlights": [], "is_gone": True}


def redact_hits(*, values: Sequence[Any], scope: Scope) -> list[Any]:
    """Return the values; hits of chunks that are gone or hidden are empty and ``is_gone``."""
    found = frozenset(_chunk_ids(list(values)))
    if not found:
        return list(values)
    gone = found - readable_chunks(sorted(found), scope)
    return [_without(value, gone) for value in values] if gone else list(values)


def _is_hit(value: Any) -> bool:
    return isinstance(value, Mapping) and "content" in value and bool(_chunks(value))


def _chunks(value: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the chunks of a raw result, or of a structured one, whose place is its metadata."""
    if value.get("chunk_id") is not None:
        return hit_chunk_ids(value)
    place = value.get("metadata")
    # What other sources keep under the same name comes without a revision of ours.
    if isinstance(place, Mapping) and isinstance(place.get("revision"), int):
        return hit_chunk_ids(place)
    return ()


def _chunk_ids(value: Any) -> Iterator[int]:
    if _is_hit(value):
        yield from _chunks(value)
    elif isinstance(value, Mapping):
        yield from (pk for one in value.values() for pk in _chunk_ids(one))
    elif isinstance(value, (list, tuple)):
        yield from (pk for one in value for pk in _chunk_ids(one))


def _without(value: Any, gone: frozenset[int]) -> Any:
    if _is_hit(value):
        return value if gone.isdisjoint(_chunks(value)) else {**value, **_EMPTY}
    if isinstance(value, Mapping):
        return {key: _without(one, gone) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without(one, gone) for one in value]
    return value
