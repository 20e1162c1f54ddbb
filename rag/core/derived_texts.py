"""Derived texts: what is kept elsewhere of chunks (answers, summaries, memories) goes with them.

Who keeps such texts registers how they are redacted; the deletion of chunks calls all of them in
its own transaction, so that the words are gone at commit. The doctor asks what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DerivedTexts:
    """Kept texts of one kind.

    ``redact`` is given the ids of deleted chunks and returns how many texts changed; ``left_over``
    counts texts that rest on chunks which are not there; ``redact_all`` redacts these.
    """

    name: str
    redact: Callable[[Sequence[int]], int]
    left_over: Callable[[], int]
    redact_all: Callable[[], int]


_KINDS: dict[str, DerivedTexts] = {}


def register_derived_texts(kind: DerivedTexts) -> None:
    """Let a kind of texts be redacted with what it rests on; a name counts once."""
    _KINDS[kind.name] = kind


def derived_texts() -> Iterator[DerivedTexts]:
    """Yield all kinds of kept texts."""
    yield from _KINDS.values()


def redact_derived_texts(chunk_ids: Sequence[int]) -> int:
    """Take out of all kept texts what rests on chunks that are deleted; return how many changed.

    For the transaction that has deleted them: after their rows, so that nobody adds one meanwhile.
    """
    return sum(kind.redact(chunk_ids) for kind in derived_texts()) if chunk_ids else 0
