"""Lint findings with their place in the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rag.core.errors import RAGError
from rag.stages.text.yaml_positions import LocatedYaml

_Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FlowFinding:
    """One thing that is wrong (``error``) or doubtful (``warning``); lines count from 1."""

    level: str
    line: int
    column: int
    error: RAGError

    @property
    def text(self) -> str:
        """Return the sentence in English."""
        return str(self.error)


class FlowFindings:
    """The findings of one flow while it is checked."""

    def __init__(self, located: LocatedYaml) -> None:
        self._located = located
        self._found: list[FlowFinding] = []

    def error(self, key: _Key, error: RAGError) -> None:
        """Note what must be mended at ``key`` before the flow can run."""
        self._add("error", key, error)

    def warning(self, key: _Key, error: RAGError) -> None:
        """Note what may be meant otherwise."""
        self._add("warning", key, error)

    @contextmanager
    def reporting(self, key: _Key) -> Iterator[None]:
        """Note the RAGError that the block raises."""
        try:
            yield
        except RAGError as error:
            self._add("error", key, error)

    def in_order(self) -> list[FlowFinding]:
        """Return the findings as they stand in the file, errors before warnings on a line."""
        return sorted(self._found, key=lambda found: (found.line, found.level, found.column))

    def _add(self, level: str, key: _Key, error: RAGError) -> None:
        place = self._located.place(key)
        self._found.append(FlowFinding(level, place.line, place.column, error))
