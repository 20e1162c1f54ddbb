"""Splitter port: where a stretch of a document is cut into chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rag.core.documents import ChunkRule, ParsedDocument
    from rag.core.ports import Tokenizer


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """A stretch ``[start, end)`` of a document: a section, or what lies between edited chunks.

    ``outline`` answers by position which headings, tables and pages there are.
    """

    document: ParsedDocument
    start: int
    end: int
    rule: ChunkRule
    tokenizer: Tokenizer
    outline: Any


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """A chunk's place ``[start, end)``; before ``own`` it repeats what the chunk before it holds.

    ``n_tokens`` None is counted by who asked. ``context`` is text from elsewhere that is embedded
    with it, such as a table's header. ``parent_start`` is where the passage begins that it is shown
    with; all spans of a passage have the same, None is shown alone.
    """

    start: int
    own: int
    end: int
    n_tokens: int | None = None
    context: str = ""
    parent_start: int | None = None


class Splitter(Protocol):
    """Cuts documents; every character but white space is in the own part of exactly one span.

    It is given section by section, which a plugin with ``crosses_headings = True`` is not.
    """

    def split(self, request: SplitRequest) -> Iterator[ChunkSpan]:
        """Yield the spans of the stretch, in order."""
        ...
