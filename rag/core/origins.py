"""Origin port: outside documents that a store follows, such as a folder or a bucket prefix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Protocol


@dataclass(frozen=True, slots=True)
class OriginDocument:
    """A document as a list tells it; ``path`` is relative and never opened as one of this machine.

    ``mark`` names its version: what has the same mark, not an empty one, and size at the same
    place has the same bytes.
    """

    path: str
    size: int
    mark: str = ""

    @property
    def is_hidden(self) -> bool:
        """Return whether some part of the path begins with a dot, as hidden files do."""
        parts = PurePosixPath(self.path).parts
        return any(part.startswith(".") and part != ".." for part in parts)


class Origin(Protocol):
    """Documents that a store can follow."""

    name: str
    """What its documents are filed under when nobody says otherwise."""

    def listed(self) -> Iterator[OriginDocument]:
        """Yield what is there, hidden documents left out.

        Raises NotFoundError when there is no such origin and ProviderError when it cannot be told:
        never less than all.
        """
        ...

    def opened(self, path: str) -> AbstractContextManager[IO[bytes]]:
        """Open one document; raise RAGError, also while it is read, or OSError."""
        ...
