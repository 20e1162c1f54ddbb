"""Ports that providers implement: tokenizer, embedder, chat model, reranker, parser, index."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rag.core.documents import ParsedDocument
    from rag.core.hits import Hit
    from rag.core.tools import ToolSpec
    from rag.core.types import ChatReply, Message, RetrievalSettings


class Tokenizer(Protocol):
    """Counts and locates tokens as an embedding model sees them, specials left out."""

    id: str

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text``."""
        ...

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return each token's (start, end) in code points of ``text``, in order."""
        ...


class Embedder(Protocol):
    """Turns texts into L2-normalised vectors. Equal input gives an equal vector, batch or not."""

    id: str
    """``provider:model``; with ``dim`` and ``version`` it names an embedding space."""
    dim: int
    version: str
    """Changes whenever vectors change for the same text (precision, prefixes, centring)."""
    max_tokens: int
    """The longest text the model takes, specials and prefix already subtracted."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's own tokenizer, or an estimate for remote models."""
        ...

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 [n, dim] for texts to be found."""
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return float32 [dim] for a question."""
        ...


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a chat model is asked. ``passages`` are the numbered texts that the prompt cites,
    for models that answer from them without a language model; of a document that is asked for
    as a whole ``headings`` are the titles of the sections that they begin in; ``table_headers`` are
    the headers of tables that they go on with. ``tools`` may be
    called instead of an answer, where the model ``has_tools``. ``schema`` is the JSON schema of
    the answer: sent to services that take one, so that a reader must not rely on it."""

    messages: Sequence[Message]
    question: str = ""
    passages: Sequence[tuple[str, str]] = ()
    headings: Sequence[str] = ()
    table_headers: Sequence[str] = ()
    temperature: float = 0.2
    max_tokens: int = 2048
    timeout_s: float = 60.0
    options: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[ToolSpec] = ()
    schema: Mapping[str, Any] | None = None


class ChatModel(Protocol):
    """Answers a list of messages, whole or in pieces."""

    id: str
    has_tools: bool
    """Whether it takes the tools of a request; its server may refuse them all the same."""

    def generate(self, request: ChatRequest) -> ChatReply:
        """Return the whole answer; raise ProviderError or ProviderTimeoutError."""
        ...

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield pieces as they come; the last one carries finish_reason and token counts."""
        ...


class Reranker(Protocol):
    """Tells how relevant texts are to a question."""

    id: str

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return 0 to 1 for each text, in their order; raise ProviderError."""
        ...


class Parser(Protocol):
    """Reads a file in isolation."""

    def parse(
        self,
        path: Path,
        name: str,
        *,
        encoding: str = "",
        recognized: Iterable[tuple[int, str]] = (),
    ) -> ParsedDocument:
        """Return canonical text, pages and blocks; raise DocumentError saying what is wrong.

        ``encoding`` overrules the detection for kinds of text. ``recognized`` are pages that OCR
        has read, each as its number and ``PageWords.to_json``.
        """
        ...


@dataclass(frozen=True, slots=True)
class StoreTarget:
    """One store in a search, resolved for a caller.

    ``sees_restricted`` is True where the caller may read every file of the store; ``share`` is
    the store's part of its space's chunks; the next two say which vector indexes are ready.
    ``model`` names the space's embedding model, by which its cosines are read; ``terms_version``
    is empty where nothing says by which version all of its terms were cut.
    """

    store_id: int
    space_id: int
    dim: int
    n_chunks: int
    sees_restricted: bool
    share: float = 1.0
    has_hnsw: bool = False
    has_partial: bool = False
    model: str = ""
    terms_version: str = ""


@dataclass(frozen=True, slots=True)
class FileFilter:
    """The only files that may be found, with the number of their chunks (for routing)."""

    file_ids: Sequence[int]
    n_chunks: int


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """A search as the index sees it: rights resolved, vectors and terms at hand.

    ``vectors`` maps a space to its query vector (missing or empty: no vector leg); ``terms`` maps
    a term to its weight (empty: no lexical leg); ``codes`` are the terms that look like a part
    number or figure. ``phrase`` is a short text to be found inside words too. ``files`` None means
    all files that pass the settings' metadata; given, they alone count.
    """

    targets: Sequence[StoreTarget]
    group_ids: frozenset[int]
    vectors: Mapping[int, NDArray[np.float32]]
    terms: Mapping[str, float]
    settings: RetrievalSettings
    codes: frozenset[str] = frozenset()
    phrase: str = ""
    is_han: bool = False
    top_k: int = 10
    files: FileFilter | None = None


class SearchIndex(Protocol):
    """Finds chunks by vector and words, both legs filtered alike."""

    def search(self, query: IndexQuery) -> tuple[list[Hit], dict[int, str]]:
        """Return hits, best first, and the route that each space's vectors took."""
        ...


class Cache(Protocol):
    """Keeps bytes by name for a while. What is lost or late is a miss; nothing here raises."""

    @property
    def is_shared(self) -> bool:
        """Return whether other processes see what is set now."""
        ...

    def get(self, name: str) -> bytes | None:
        """Return the value that was set under ``name``, or None."""
        ...

    def set(self, name: str, value: bytes, ttl_s: float) -> None:
        """Keep ``value`` for ``ttl_s`` seconds; what was there before is gone in any case."""
        ...

    def add(self, name: str, value: bytes, ttl_s: float) -> bool:
        """Keep ``value`` unless something is there; return whether it was kept."""
        ...

    def delete(self, name: str) -> None:
        """Forget ``name``."""
        ...
