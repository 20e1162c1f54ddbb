"""File search port: stores of files that answer with grounding, ours or Gemini File Search."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rag.core.errors import InvalidInputError
from rag.core.types import Groundedness

if TYPE_CHECKING:
    from datetime import datetime

    from rag.core.deadline import Deadline
    from rag.core.documents import ChunkRule

DOCUMENT_STATES = ("pending", "active", "failed")


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """A store as its backend sees it; counts are of documents, None where not asked for."""

    name: str
    display_name: str
    created_at: datetime
    n_active: int | None = None
    n_pending: int | None = None
    n_failed: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RemoteDocument:
    """One document of a store; ``state`` is one of DOCUMENT_STATES, ``error`` why it failed."""

    name: str
    display_name: str
    size_bytes: int
    state: str = "active"
    mime_type: str = ""
    error: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file on its way into a store.

    ``mime_type`` empty: told by content and name. ``metadata`` values are text, numbers or lists
    of text. ``on_progress`` gets the share done, 0 to 1, in the thread that called ``upload``.
    """

    path: Path
    display_name: str
    mime_type: str
    rule: ChunkRule
    metadata: Mapping[str, Any] = field(default_factory=dict)
    on_progress: Callable[[float], None] | None = None


@dataclass(frozen=True, slots=True)
class Grounding:
    """Where a stretch of an answer comes from, or a chunk that no stretch names (no ``start``).

    ``source`` is what people call the document, ``chunk`` its text, empty when only the document
    is known. ``start`` and ``end`` are code points of the answer. ``metadata`` is what the
    document was uploaded with: the way back to our own row, since not all backends tell
    ``document``, its resource name.
    """

    source: str
    chunk: str
    document: str = ""
    page: int | None = None
    start: int | None = None
    end: int | None = None
    verdict: str = ""
    store: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroundedAnswer:
    """An answer, or the next piece of one; only the last piece has groundings.

    ``documents`` are the texts that were used, in order, once each; the tokens of a piece, where
    they are known, are those of all pieces so far.
    """

    text: str
    groundings: tuple[Grounding, ...] = ()
    documents: tuple[str, ...] = ()
    model: str = ""
    finish_reason: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    notice: str = ""
    groundedness: Groundedness = field(default_factory=Groundedness)


@dataclass(frozen=True, slots=True)
class InlineFile:
    """A file sent along with a question, by its bytes on disk."""

    name: str
    path: Path
    mime_type: str


@dataclass(frozen=True, slots=True)
class GroundedQuestion:
    """A question to stores (by resource name), or to files sent along, never to both.

    ``model`` is the backend's own name for one, empty for its default. ``metadata_filter`` is
    AIP-160, such as ``lang = "zh" AND year > 2020``. Raises InvalidInputError when there is
    nothing to ask, or nobody to ask it.
    """

    text: str
    stores: Sequence[str] = ()
    files: Sequence[InlineFile] = ()
    top_k: int | None = None
    metadata_filter: str = ""
    model: str = ""

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise InvalidInputError("The question is empty.", hint="Write a question.")
        if bool(self.stores) == bool(self.files):
            raise InvalidInputError(
                "A question goes either to stores or to files sent along.", hint="Name one of them."
            )
        if self.top_k is not None and self.top_k < 1:
            raise InvalidInputError(
                "top_k is {value}.", hint="Allowed: 1 or more.", value=self.top_k
            )


class FileSearch(Protocol):
    """Keeps files and answers from them. Raises RAGError and nothing else."""

    def create_store(self, display_name: str) -> RemoteStore:
        """Return a new, empty store."""
        ...

    def get_store(self, name: str) -> RemoteStore:
        """Return a store with its counts; raise NotFoundError when it is gone."""
        ...

    def list_stores(self) -> list[RemoteStore]:
        """Return all stores of the account, oldest first."""
        ...

    def delete_store(self, name: str) -> None:
        """Delete a store with all its documents; one that is gone is no error."""
        ...

    def upload(self, store: str, upload: Upload, *, deadline: Deadline) -> RemoteDocument:
        """Return the document once it can be found.

        What fails or is cancelled half-way leaves none behind, or the error's hint names it.
        """
        ...

    def list_documents(self, store: str) -> list[RemoteDocument]:
        """Return a store's documents."""
        ...

    def delete_document(self, name: str) -> None:
        """Delete a document; one that is gone is no error."""
        ...

    def answer(self, question: GroundedQuestion, *, deadline: Deadline) -> GroundedAnswer:
        """Return the whole answer."""
        ...

    def stream(
        self, question: GroundedQuestion, *, deadline: Deadline
    ) -> AsyncIterator[GroundedAnswer]:
        """Yield pieces as they come; leaving the iteration stops the model."""
        ...
