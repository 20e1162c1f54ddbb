"""Connector plugins: outside documents that a store follows, such as a folder or a website."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Protocol

from rag.core.deadline import Deadline
from rag.core.errors import RAGError
from rag.core.sources import FetchReply, FetchRequest


@dataclass(frozen=True, slots=True)
class OriginDocument:
    """A document as a list tells it; ``path`` is relative and never opened as one of this machine.

    ``mark`` names its version: what has the same mark, not an empty one, and size at the same
    place has the same bytes. ``url`` opens it where it comes from; ``name`` is what people call it,
    by default the last part of the path; ``sha256`` is that of its bytes where the list knows it. A
    document with a ``fault`` is there, and cannot be read now.
    """

    path: str
    size: int = 0
    mark: str = ""
    url: str = ""
    name: str = ""
    sha256: str = ""
    fault: RAGError | None = None

    @property
    def title(self) -> str:
        """Return what people call it."""
        return self.name or PurePosixPath(self.path).name

    @property
    def is_hidden(self) -> bool:
        """Return whether some part of the path begins with a dot, as hidden files do."""
        parts = PurePosixPath(self.path).parts
        return any(part.startswith(".") and part != ".." for part in parts)


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """A document that the store has from the origin: its file, its place there, its version."""

    file_id: int
    path: str
    sha256: str
    size: int = 0
    mark: str = ""
    url: str = ""
    groups: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """What changed since the last sync: documents that are new or other now, places that are gone.

    Everything else that the store has is there unchanged.
    """

    documents: Sequence[OriginDocument] = ()
    gone: Sequence[str] = ()


class ConnectorContext(Protocol):
    """What a sync lends its connector: what is known, the guarded network, secrets, a folder.

    ``cursor`` is where the last complete sync ended, empty at first; a connector that knows how to
    go on from there sets it anew while it lists. ``scratch`` is an empty folder of this sync,
    ``kept`` one of the connection that stays. ``limit`` is how many documents may be listed,
    ``max_bytes`` how many bytes one may have.
    """

    cursor: str
    known: Mapping[str, KnownDocument]
    scratch: Path
    kept: Path
    deadline: Deadline
    limit: int
    max_bytes: int

    def folder(self, path: str) -> Path:
        """Return a folder of this machine; raise ForbiddenError where syncs may not read it."""
        ...

    def fetch(self, request: FetchRequest) -> FetchReply:
        """Call an address, guarded: never a private one unless it is allowed, never too long."""
        ...

    def download(self, request: FetchRequest, sink: BinaryIO) -> FetchReply:
        """Do as ``fetch``, and write the body to ``sink``, in flat memory."""
        ...

    def addresses(self, url: str) -> Sequence[str]:
        """Return the checked addresses of a url's host, for clients with a network of their own."""
        ...

    def secret(self, name: str, *, url: str = "") -> str:
        """Return a named secret of the installation, which is about to be sent to ``url``."""
        ...

    def tell(self, n_listed: int) -> None:
        """Tell how many documents were looked at; raise CancelledError when the sync is stopped."""
        ...

    def skip(self, path: str, reason: RAGError) -> None:
        """Tell what is passed over by intention, and why."""
        ...

    def end_early(self, reason: RAGError) -> None:
        """Tell that the list is not whole: nothing is deleted by this sync."""
        ...


class Connector(Protocol):
    """Lists and opens the documents of one origin. Made from its ``Options``, once a sync.

    Raises RAGError and OSError, nothing else.
    """

    def list(self, context: ConnectorContext) -> Iterator[OriginDocument]:
        """Yield what is there, hidden documents left out.

        Raises NotFoundError when there is no such origin and ProviderError when it cannot be told:
        never less than all, unless it is said by ``context.end_early``.
        """
        ...

    def since(self, context: ConnectorContext) -> DocumentChanges | None:
        """Return what changed since ``context.cursor``; None where only a whole list can tell."""
        ...

    def fetch(
        self, document: OriginDocument, context: ConnectorContext
    ) -> AbstractContextManager[IO[bytes]]:
        """Open one document; raise RAGError, also while it is read, or OSError."""
        ...

    def permissions(self, document: OriginDocument) -> Sequence[str] | None:
        """Return the groups of the origin that alone may read it; None for all who read there."""
        ...
