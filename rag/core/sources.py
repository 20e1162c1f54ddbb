"""Data source and prompt enhancer plugins: their protocols, queries and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.hits import Hit
from rag.core.options import read_options
from rag.core.plugins import PLUGINS
from rag.core.types import NO_ENHANCER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rag.core.file_search import GroundedAnswer
    from rag.core.rag_node import FileRef
    from rag.core.types import SearchResult


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One HTTP call to an address that a person configured or a user sent.

    ``hosts`` are names or networks that may be called although they are private. ``statuses`` are
    replies too, beside 2xx, such as 304 to a conditional request. ``body`` is sent as it is.
    """

    url: str
    method: str = "GET"
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    max_bytes: int = 5_000_000
    retries: int = 2
    hosts: Sequence[str] = ()
    statuses: Sequence[int] = ()
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class FetchReply:
    """A response whose status was 2xx or asked for; ``url`` is where redirects ended."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """One question to stores of file search (by name) or to files by address, never to both."""

    text: str
    stores: Sequence[str] = ()
    files: Sequence[FileRef] = ()
    top_k: int | None = None
    metadata_filter: str = ""


class SourcePorts(Protocol):
    """What the house lends a source, so that none brings its own search, model or network."""

    def search(
        self, query: str, *, scope: Scope, stores: Sequence[str], changes: Mapping[str, Any]
    ) -> SearchResult:
        """Search stores by name, slug or resource name, as everybody else does.

        ``changes`` are retrieval settings laid over those of the first store.
        """
        ...

    def embed_query(self, text: str, *, model: str = "") -> NDArray[np.float32]:
        """Return the vector of a question; an empty ``model`` is the configured one."""
        ...

    def fetch(self, request: FetchRequest, *, deadline: Deadline) -> FetchReply:
        """Call an address, guarded: never a private one unless it is allowed, never too long."""
        ...

    def answer(self, request: AnswerRequest, *, scope: Scope, deadline: Deadline) -> GroundedAnswer:
        """Answer from stores, whichever backend keeps them, or from files; see the scope's rights.

        Raises NotFoundError alike for no store and an unreadable one.
        """
        ...

    def secret(self, name: str, *, url: str = "") -> str:
        """Return a named secret of the installation, which is about to be sent to ``url``.

        An unknown name is an error, and so is a host that the secret is not meant for.
        """
        ...


@dataclass(frozen=True, slots=True)
class SourceQuery:
    """One question to one source, by somebody (``scope``), until a ``deadline``.

    ``values`` are what ``{name}`` in templates may stand for; ``user_query`` is always there.
    """

    text: str
    scope: Scope
    deadline: Deadline
    ports: SourcePorts
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceResult:
    """What was found, best first; ``notes`` say for people what was left out and why."""

    hits: tuple[Hit, ...] = ()
    notes: tuple[str, ...] = ()


class Source(Protocol):
    """A data source. Made from its ``Options``; called from many threads at once.

    Raises RAGError and nothing else; blocks no longer than the query's deadline.
    """

    def retrieve(self, query: SourceQuery) -> SourceResult:
        """Return what the source has on the question that ``query.scope`` may see."""
        ...


class Enhancer(Protocol):
    """Puts sources before a prompt. No context: the prompt unchanged."""

    def enhance(self, prompt: str, context: str) -> str:
        """Return the prompt as the model shall see it."""
        ...


def enhance_with(name: str, prompt: str, context: str) -> str:
    """Return the prompt with its context as the enhancer ``name`` words it.

    Raises UnknownNameError for a name that nobody knows, with context or without.
    """
    if name == NO_ENHANCER:
        return f"{context}\n\n{prompt}" if context else prompt
    plugin = PLUGINS.get("enhancer", name)
    if not context:
        return prompt
    enhancer: Enhancer = plugin(read_options(plugin.Options, {}, of=name))
    return enhancer.enhance(prompt, context)
