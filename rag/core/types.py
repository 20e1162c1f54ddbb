"""Retrieval settings, search results, chat messages, citations and answers as frozen values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

from rag.core.analysis import UNANSWERABLE_WAYS, Answerability, QueryAnalysis
from rag.core.errors import InvalidInputError, UnknownNameError
from rag.core.hits import Hit
from rag.core.plugins import PLUGINS

MODES = ("auto", "semantic", "keyword", "hybrid")
FUSIONS = ("weighted", "rrf")
RERANKS = ("none", "llm", "endpoint", "mixed")
DECOMPOSITIONS = ("rules", "none")
CONTEXT_TYPES = ("standard", "detailed", "summary", "xml")


def rerank_methods() -> tuple[str, ...]:
    """Return who can rank hits again: ours first, then the rerankers of other plugins."""
    return (*RERANKS, *(name for name in PLUGINS.names("reranker") if name not in RERANKS))


NO_ENHANCER = "none"


def enhancer_names() -> tuple[str, ...]:
    """Return the prompt enhancers that can be chosen: none, then all that are registered."""
    return (NO_ENHANCER, *PLUGINS.names("enhancer"))


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """Everything that decides what a query finds; its hash is carried by logs, caches and runs.

    ``top_k`` None lets the query analysis decide. ``vector_threshold`` is a calibrated similarity,
    whatever the embedding model, ``bm25_threshold`` a BM25 score; 0 keeps all. The first
    ``rerank_top_k`` hits are ranked again as ``rerank`` says. ``unanswerable`` is what an answer
    does where the hits may not hold it: answer anyway, warn, refuse. ``decomposition`` searches
    for each part of a question that needs several passages: by rules, or none.
    """

    mode: str = "auto"
    top_k: int | None = None
    fusion: str = "weighted"
    vector_weight: float = 0.7
    bm25_weight: float = 0.3
    vector_threshold: float = 0.0
    bm25_threshold: float = 0.0
    rerank: str = "none"
    rerank_top_k: int = 20
    context_type: str = "standard"
    context_tokens: int = 4000
    content_types: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    unanswerable: str = "warn"
    decomposition: str = "rules"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UnknownNameError("retrieval mode", self.mode, MODES)
        if self.fusion not in FUSIONS:
            raise UnknownNameError("fusion", self.fusion, FUSIONS)
        if self.rerank not in RERANKS and self.rerank not in rerank_methods():
            raise UnknownNameError("reranking method", self.rerank, rerank_methods())
        if self.context_type not in CONTEXT_TYPES:
            raise UnknownNameError("context type", self.context_type, CONTEXT_TYPES)
        if self.unanswerable not in UNANSWERABLE_WAYS:
            raise UnknownNameError("way with doubt", self.unanswerable, UNANSWERABLE_WAYS)
        if self.decomposition not in DECOMPOSITIONS:
            raise UnknownNameError("decomposition", self.decomposition, DECOMPOSITIONS)
        _check_whole("top_k", 1 if self.top_k is None else self.top_k, 200)
        _check("vector_weight", self.vector_weight, 0, 1)
        _check("bm25_weight", self.bm25_weight, 0, 1)
        _check("vector_threshold", self.vector_threshold, -1, 1)
        _check("bm25_threshold", self.bm25_threshold, 0, 1_000_000)
        _check_whole("rerank_top_k", self.rerank_top_k, 200)
        _check_whole("context_tokens", self.context_tokens, 1_000_000, low=100)
        if self.vector_weight + self.bm25_weight <= 0:
            raise InvalidInputError("vector_weight and bm25_weight are both 0.")
        _check_filters(self.content_types, self.metadata)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return settings from stored or posted values; an unknown key is an error."""
        known = cls.__dataclass_fields__
        for key in values:
            if key not in known:
                raise UnknownNameError("retrieval setting", key, known)
        types = values.get("content_types", ())
        # Of a text it would make its letters.
        types = tuple(types) if isinstance(types, list) else types
        return cls(**{**values, "content_types": types})

    def but(self, **changes: Any) -> Self:
        """Return a copy with some values replaced, checked like new ones."""
        return replace(self, **changes)

    def in_mode(self, mode: str) -> Self:
        """Return the settings in another mode; ``auto`` leaves their own."""
        changed = replace(self, mode=mode)
        return self if mode == "auto" else changed

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON-safe dict that ``from_dict`` takes back."""
        return {**asdict(self), "content_types": list(self.content_types)}

    @property
    def hash(self) -> str:
        """Return 16 hex digits that differ whenever any value differs."""
        # Not of ``as_dict``: its copies take three times as long.
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        raw = json.dumps(values, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(raw.encode()).hexdigest()[:16]


def _check(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise InvalidInputError(
            "{name} is {value}.",
            hint="Allowed: {low} to {high}.",
            name=name,
            value=value,
            low=low,
            high=high,
        )


def _check_whole(name: str, value: Any, high: int, *, low: int = 1) -> None:
    _check(name, value, low, high)
    if not isinstance(value, int):
        raise InvalidInputError("{name} must be a whole number.", name=name)


def _check_filters(content_types: Any, metadata: Any) -> None:
    if not isinstance(content_types, (list, tuple)):
        raise InvalidInputError("{name} must be a list.", name="content_types")
    for number, one in enumerate(content_types):
        if not isinstance(one, str):
            raise InvalidInputError("{name} must be a text.", name=f"content_types.{number}")
    if not isinstance(metadata, Mapping):
        raise InvalidInputError("{name} must be an object.", name="metadata")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits of one query with the decisions that led to them; times are milliseconds.

    ``metadata`` tells every decision, JSON-safe. ``rerank`` says who ranked the hits again:
    empty for nobody, ``failed`` when it was asked for and the order is that of the index.
    ``confidence``, 0 to 1, is how sure the search is of the best hits; None where there are none.
    ``store_ids`` are the stores that were searched: those asked for that the caller may read.
    ``answerability`` says whether the hits can answer the query; None where nobody asked, or
    nothing can be told.
    """

    query: str
    hits: tuple[Hit, ...]
    mode: str
    top_k: int
    settings_hash: str
    routes: Mapping[int, str]
    timings_ms: Mapping[str, float]
    analysis: QueryAnalysis | None = None
    rerank: str = ""
    confidence: float | None = None
    store_ids: tuple[int, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    answerability: Answerability | None = None


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of a tool that a model wants.

    ``fault`` says why its arguments could not be read. ``signature`` is the vendor's own and goes
    back to it with the call; ``id`` is empty where the vendor has none.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn for a chat model; ``role`` is system, user, assistant or tool.

    ``tool_calls`` of an assistant are what it wants called; of a tool, the one that it answers.
    """

    role: str
    content: str
    tool_calls: tuple[ToolUse, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A chat model's whole answer, or one piece of it while it streams.

    ``notice`` is for the reader (such as: no model is configured), never part of the answer.
    ``tool_calls`` come with the last piece.
    """

    text: str
    model: str = ""
    finish_reason: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    notice: str = ""
    tool_calls: tuple[ToolUse, ...] = ()


# What a look at the source says of a quote; people read ``VERDICT_LABELS`` of the admin, and what
# `agents.admin.chat_page` says of them.
Verdict = Literal["verified", "abridged", "altered", "wrong_document", "unknown"]
# Those of a quote whose words stand in the document that was named.
VERIFIED = frozenset({"verified", "abridged"})
# A quote of another document than was named is set right, and so it holds.
HOLDING_VERDICTS = VERIFIED | {"wrong_document"}


@dataclass(frozen=True, slots=True)
class Citation:
    """A claim's link to a hit. Offsets are code points of the file's canonical text.

    ``found`` is the closest span of
    the source when the quote was altered, with its edit ``distance``. ``omitted`` are the spans of
    ``found`` that the quote leaves out where it has an ellipsis.
    """

    number: int
    doc_id: str
    quote: str
    verdict: Verdict
    claim: str = ""
    chunk_id: int | None = None
    revision: int | None = None
    file_id: int | None = None
    file_name: str = ""
    char_start: int | None = None
    char_end: int | None = None
    page: int | None = None
    found: str = ""
    distance: int = 0
    omitted: tuple[tuple[int, int], ...] = ()


# What the sources say of a sentence of an answer, and of the whole.
StatementVerdict = Literal["cited", "attributed", "contradicted", "unsupported"]
GroundednessVerdict = Literal["grounded", "partly", "ungrounded", "not_found"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer that claims something: ``text[start:end]`` of what is shown.

    ``citations`` are the numbers of those that stand by it. ``reason`` says why it does not hold:
    a contradiction in a number, denial, opposite or name, or ``missing`` words or names. ``doc_id``
    is the document that speaks of the same where none is cited.
    """

    start: int
    end: int
    verdict: StatementVerdict
    citations: tuple[int, ...] = ()
    reason: str = ""
    doc_id: str = ""

    @property
    def holds(self) -> bool:
        """Return whether a source says it."""
        return self.verdict in ("cited", "attributed")


@dataclass(frozen=True, slots=True)
class Groundedness:
    """How far an answer is held by its sources: its statements, each with a verdict.

    ``is_refusal`` tells an answer that says of something that it was not found.
    """

    statements: tuple[Statement, ...] = ()
    is_refusal: bool = False

    @property
    def n_found(self) -> int:
        """Return how many statements a source says."""
        return sum(one.holds for one in self.statements)

    @property
    def verdict(self) -> GroundednessVerdict:
        """Return what holds of the whole; an answer that claims nothing found nothing."""
        if not self.statements:
            return "not_found"
        if not self.n_found:
            return "ungrounded"
        is_whole = self.n_found == len(self.statements) and not self.is_refusal
        return "grounded" if is_whole else "partly"

    def as_dict(self) -> dict[str, Any]:
        """Return verdict, counts and statements, JSON-safe."""
        return {
            "verdict": self.verdict,
            "n_statements": len(self.statements),
            "n_found": self.n_found,
            "statements": [
                {**asdict(one), "citations": list(one.citations)} for one in self.statements
            ],
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer whose citations were looked up in the pinned texts of its hits.

    ``text`` holds ``[n]`` where citation ``n`` was made. ``confidence``, 0 to 1, is that of the
    search as far as the answer is held by its sources; None where the search tells none.
    """

    question: str
    text: str
    citations: tuple[Citation, ...]
    result: SearchResult
    model: str
    notice: str = ""
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    outcome: str = "answered"
    confidence: float | None = None
    groundedness: Groundedness = field(default_factory=Groundedness)
