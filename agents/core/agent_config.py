"""Agent configuration: one frozen, validated value of a row's or a request's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from rag.core.options import option, read_options
from rag.core.types import enhancer_names, rerank_methods

# Most iterations of a new agent by its type, where its maker does not say; one for the others.
DEFAULT_ITERATIONS = {"react": 8, "supervisor": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The config of an agent; every value has a default. Times are seconds.

    ``tools``, ``sources`` and the limits of a run are for the type react, ``agents`` for the type
    supervisor. A source is ``{"type": plugin, "description": …}`` with the options of its plugin.
    """

    default_top_k: int = option(
        5, help="How many results are given to the model.", minimum=1, maximum=50
    )
    min_confidence_score: float = option(
        0.5, help="Below it the agent says that it does not know.", minimum=0, maximum=1
    )
    search_mode: Literal["auto", "semantic", "keyword", "hybrid"] = option(
        "hybrid",
        help="How to search; auto asks words and meaning, or words alone for a code or quote.",
    )
    enable_source_citation: bool = option(True, help="The answer cites its sources.")
    enable_query_rewrite: bool = option(
        False, help="A question that leans on the conversation is made to stand alone."
    )
    enable_rerank: bool = option(False, help="Results are reranked by a model.")
    rerank: str = option(
        "llm",
        help="Who ranks again; mixed weighs the vector score in.",
        choices=lambda: rerank_methods()[1:],
    )
    rerank_top_k: int = option(
        5, help="How many results are kept after reranking.", minimum=1, maximum=50
    )
    vector_threshold: float = option(
        0.7, help="A result needs this similarity, or enough words.", minimum=0, maximum=1
    )
    bm25_threshold: float = option(
        0.3, help="A result of the full-text search needs this BM25 score.", minimum=0, maximum=1000
    )
    unanswerable: Literal["answer", "warn", "refuse"] = option(
        "warn",
        help="Where the results may not hold the answer: answer anyway, warn, or refuse. What they "
        "are not about at all is refused, but for answer.",
    )
    citation_failure: Literal["mark", "drop", "repair"] = option(
        "mark",
        help="A quote that its source does not hold: mark it, drop its sentence, or ask "
        "the model once to repair the answer.",
    )
    enable_footnotes: bool = option(
        False, help="OpenAI's clients get the citations again, as lines below the text."
    )
    enhancement: str = option(
        "none",
        help="Prompt enhancer: how the question and its sources are put to the model.",
        choices=enhancer_names,
    )
    max_tokens: int = option(2048, help="Maximum tokens of an answer.", minimum=1, maximum=65536)
    context_tokens: int = option(
        4000, help="Maximum tokens of the sources.", minimum=100, maximum=1_000_000
    )
    history_turns: int = option(
        6, help="How many earlier turns the model is shown.", minimum=0, maximum=50
    )
    summary_tokens: int = option(
        300,
        help="Maximum tokens of the summary of what came before; 0 keeps none.",
        minimum=0,
        maximum=4000,
    )
    tools: list[str] = option(["vector_retrieve"], help="Which tools the model may call.")
    sources: dict[str, Any] = option(
        {}, help="Data sources that the model may ask, by the name it calls them."
    )
    mcp_servers: dict[str, Any] = option(
        {},
        help="External MCP servers by a short name: mcp (the address), tools (those that may be "
        "called), and perhaps secret and timeout.",
    )
    agents: list[str] = option([], help="To which agents questions are passed on, by name.")
    tool_calling: Literal["auto", "native", "text"] = option(
        "auto",
        help="Tools are called by the model's own function calling (native), or in JSON "
        "that it writes (text); auto takes the first where the model has it.",
    )
    enable_fast_path: bool = option(
        True, help="A simple question whose search is sure is answered without a loop of tools."
    )
    fast_path_confidence: float = option(
        0.7, help="How sure the search must be for that.", minimum=0, maximum=1
    )
    max_tool_calls: int = option(
        12, help="Maximum tool calls in one answer.", minimum=1, maximum=100
    )
    run_tokens: int = option(
        60_000,
        help="Maximum tokens, in and out, before a loop of tools must come to its answer.",
        minimum=500,
        maximum=5_000_000,
    )
    run_timeout_s: float = option(
        120.0, help="Timeout for a loop of tools or of agents.", minimum=0.05, maximum=900
    )
    tool_timeout_s: float = option(
        20.0, help="Timeout for one call of a tool.", minimum=0.05, maximum=300
    )
    session_titles: Literal["rule", "model"] = option(
        "rule", help="Titles of sessions: the first question, or a few words by the model."
    )
    suggested_questions: str = option(
        "",
        help="Questions to begin with, one a line; empty: some that the documents answer.",
    )
    enable_memory: bool = option(
        False, help="What a person told and asked is remembered for their later sessions."
    )
    memory_project: str = option(
        "", help="Agents with the same word here share what they remember; empty: its own name."
    )
    memory_tokens: int = option(
        600, help="Maximum tokens of what is remembered.", minimum=50, maximum=8000
    )
    page_tokens: int = option(
        2000,
        help="Maximum tokens of what a page sends along: selected text and documents.",
        minimum=100,
        maximum=100_000,
    )
    memory_timeout_s: float = option(
        5.0, help="Timeout for remembering.", minimum=0.05, maximum=120
    )
    page_timeout_s: float = option(
        20.0, help="Timeout for reading what a page sends along.", minimum=0.05, maximum=120
    )
    rewrite_timeout_s: float = option(8.0, help="Timeout for a rewrite.", minimum=0.05, maximum=120)
    search_timeout_s: float = option(20.0, help="Timeout for a search.", minimum=0.05, maximum=120)
    rerank_timeout_s: float = option(15.0, help="Timeout for reranking.", minimum=0.05, maximum=120)
    generate_timeout_s: float = option(
        120.0, help="Timeout for an answer.", minimum=0.05, maximum=600
    )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, of: str = "agent") -> Self:
        """Return the config; raise UnknownNameError or InvalidInputError for what does not fit."""
        return read_options(cls, values, of=of)

    def as_dict(self) -> dict[str, Any]:
        """Return every value, JSON-safe."""
        return asdict(self)
