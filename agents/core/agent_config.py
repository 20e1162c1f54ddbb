"""What an agent may be told. In: values of a row or a request. Out: one frozen, checked config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from rag.core.options import option, read_options


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The config of an agent of type rag; every value has a default. Times are seconds."""

    default_top_k: int = option(5, help="How many results are given to the model.",
                                minimum=1, maximum=50)  # fmt: skip
    min_confidence_score: float = option(
        0.5, help="Below it the agent says that it does not know.", minimum=0, maximum=1
    )
    search_mode: Literal["auto", "semantic", "keyword", "hybrid"] = option(
        "hybrid", help="How to search; auto lets the question's intent decide."
    )
    enable_source_citation: bool = option(True, help="The answer cites its sources.")
    enable_query_rewrite: bool = option(
        False, help="A question that leans on the conversation is made to stand alone."
    )
    enable_rerank: bool = option(False, help="Results are ranked again by a model.")
    rerank: Literal["llm", "endpoint", "mixed"] = option(
        "llm", help="Who ranks again; mixed weighs the vector score in."
    )
    rerank_top_k: int = option(5, help="How many results are kept after ranking again.",
                               minimum=1, maximum=50)  # fmt: skip
    vector_threshold: float = option(
        0.7, help="A result found by meaning alone needs this likeness.", minimum=0, maximum=1
    )
    bm25_threshold: float = option(
        0.3, help="A result found by words needs this BM25 score.", minimum=0, maximum=1000
    )
    citation_failure: Literal["mark", "drop", "repair"] = option(
        "mark", help="A quote that its source does not hold: mark it, drop its sentence, or ask "
        "the model once to repair the answer.",
    )  # fmt: skip
    max_tokens: int = option(2048, help="Most tokens of an answer.", minimum=16, maximum=65536)
    context_tokens: int = option(4000, help="Most tokens of the sources.",
                                 minimum=100, maximum=1_000_000)  # fmt: skip
    history_turns: int = option(6, help="How many earlier turns the model is shown.",
                                minimum=0, maximum=50)  # fmt: skip
    summary_tokens: int = option(
        300, help="Most tokens of the summary of what came before; 0 keeps none.",
        minimum=0, maximum=4000,
    )  # fmt: skip
    rewrite_timeout_s: float = option(8.0, help="Longest time for a rewrite.",
                                      minimum=0.05, maximum=120)  # fmt: skip
    search_timeout_s: float = option(20.0, help="Longest time for a search.",
                                     minimum=0.05, maximum=120)  # fmt: skip
    rerank_timeout_s: float = option(15.0, help="Longest time for ranking again.",
                                     minimum=0.05, maximum=120)  # fmt: skip
    generate_timeout_s: float = option(120.0, help="Longest time for an answer.",
                                       minimum=0.05, maximum=600)  # fmt: skip

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, of: str = "agent") -> Self:
        """Return the config; raise UnknownNameError or InvalidInputError for what does not fit."""
        return read_options(cls, values, of=of)

    def as_dict(self) -> dict[str, Any]:
        """Return every value, JSON-safe."""
        return asdict(self)
