"""Schemas of retrieval and answers, with the retrieval settings made from the core's dataclass."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field, create_model

from rag.core.analysis import UNANSWERABLE_WAYS
from rag.core.types import (
    CONTEXT_TYPES,
    DECOMPOSITIONS,
    FUSIONS,
    MODES,
    RetrievalSettings,
    rerank_methods,
)

_TEXT = Annotated[str, Field(min_length=1, max_length=200)]
_SHAPES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "mode": (
        Literal[MODES],
        {},
        "How to search; auto asks words and meaning, or words alone for a code or quote.",
    ),
    "top_k": (
        int | None,
        {"ge": 1, "le": 200},
        "How many results; null lets the query's complexity decide: 3, 5 or 10.",
    ),
    "fusion": (Literal[FUSIONS], {}, "How the two legs become one score."),
    "vector_weight": (float, {"ge": 0, "le": 1}, "Weight of the vector leg."),
    "bm25_weight": (float, {"ge": 0, "le": 1}, "Weight of the lexical leg."),
    "vector_threshold": (float, {"ge": -1, "le": 1}, "Minimum calibrated similarity; 0 keeps all."),
    "bm25_threshold": (float, {"ge": 0, "le": 1_000_000}, "Minimum BM25 score; 0 keeps all."),
    "rerank": (
        Literal[rerank_methods()],
        {},
        "Who ranks results again: none, llm, endpoint or mixed.",
    ),
    "rerank_top_k": (int, {"ge": 1, "le": 200}, "How many results are reranked."),
    "context_type": (Literal[CONTEXT_TYPES], {}, "How the context is laid out."),
    "context_tokens": (int, {"ge": 100, "le": 1_000_000}, "Maximum tokens of the context."),
    "content_types": (list[_TEXT], {"max_length": 100}, "Only files of these content types."),
    "metadata": (dict[str, Any], {}, "Only files whose metadata contains this."),
    "unanswerable": (
        Literal[UNANSWERABLE_WAYS],
        {},
        "Where the hits may not hold the answer: answer anyway, warn or refuse. With warn, what "
        "they are not about is refused.",
    ),
    "decomposition": (
        Literal[DECOMPOSITIONS],
        {},
        "A question of several parts: each part is searched, found by rules; or none.",
    ),
}


def _field(field: dataclasses.Field[Any]) -> Any:
    kind, limits, description = _SHAPES[field.name]
    make: Any = field.default_factory
    default = make() if field.default is dataclasses.MISSING else field.default
    default = list(default) if isinstance(default, tuple) else default
    return kind, Field(default, description=description, **limits)


class _Strict(Schema):
    model_config = ConfigDict(extra="forbid", strict=True)


SettingsBody: type[Schema] = create_model(
    "RetrievalSettings",
    __base__=_Strict,
    **{field.name: _field(field) for field in dataclasses.fields(RetrievalSettings)},
)


_Name = Annotated[str, Field(min_length=1, max_length=512)]
_Question = Annotated[str, Field(min_length=1, max_length=4000, description="What is looked for.")]
_Stores = Annotated[
    list[_Name],
    Field(min_length=1, max_length=50, description="Stores by slug, name or resource name."),
]
_Settings = Annotated[
    SettingsBody | None,  # type: ignore[valid-type]  # made from the dataclass
    Field(description="Replaces what it names of the first store's own settings."),
]


class RetrieveBody(Schema):
    """A question, and how what is found shall be laid out."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "query": "How often is the pump serviced?",
                    "stores": ["manuals"],
                    "settings": {"top_k": 5},
                    "context_type": "standard",
                    "enhancement": "standard",
                }
            ]
        },
    )

    query: _Question
    stores: _Stores
    settings: _Settings = None
    retrieval_mode: Literal["auto", "semantic", "keyword", "hybrid"] = Field(
        "auto", description="auto: by the query's intent."
    )
    context_type: Literal["standard", "detailed", "summary", "xml"] | None = Field(
        None, description="Unset: as the settings say."
    )
    enhancement: str | None = Field(
        None, max_length=200, description="standard, creative, analytical or a plugin's name."
    )
    prompt: str | None = Field(
        None, max_length=100_000, description="What is enhanced; the query when it is left out."
    )


class AskBody(Schema):
    """A question to be answered."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"query": "How often is the pump serviced?", "stores": ["manuals"]}]
        },
    )

    query: _Question
    stores: _Stores
    settings: _Settings = None
    enhancement: str = Field(
        "none",
        max_length=200,
        description="Prompt enhancer: none, standard, creative, analytical or a plugin's name.",
    )
    model: str = Field(
        "",
        max_length=200,
        description="Chat model as `provider:model`, of RAG_CHAT_MODEL and RAG_ASK_MODELS; for who "
        "may add agents. Empty: the configured one.",
    )


class Retrieved(Schema):
    """What was found. Each hit tells content, score, content_type, document_id and source."""

    hits: list[dict[str, Any]]
    context: str
    enhanced_prompt: str | None
    metadata: dict[str, Any]


class Answered(Schema):
    """An answer with its citations and the hits that they point to."""

    answer: str
    outcome: str
    confidence: float | None
    grounding: dict[str, Any]
    citations: list[dict[str, Any]]
    hits: list[dict[str, Any]]
    model: str
    notice: str
    metadata: dict[str, Any]
