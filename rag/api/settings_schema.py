"""Retrieval settings as a pydantic model. In: the dataclass of the core. Out: its limited shape.

``RetrievalSettings`` stays the judge; a test holds this shape against it.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field, create_model

from rag.core.types import CONTEXT_TYPES, FUSIONS, MODES, RERANKS, RetrievalSettings

_TEXT = Annotated[str, Field(min_length=1, max_length=200)]
_SHAPES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "mode": (Literal[MODES], {}, "How to search; auto lets the query's intent decide."),
    "top_k": (
        int | None, {"ge": 1, "le": 200},
        "How many results; null lets the query's complexity decide: 3, 5 or 10.",
    ),
    "fusion": (Literal[FUSIONS], {}, "How the two legs become one score."),
    "vector_weight": (float, {"ge": 0, "le": 1}, "Weight of the vector leg."),
    "bm25_weight": (float, {"ge": 0, "le": 1}, "Weight of the lexical leg."),
    "vector_threshold": (float, {"ge": -1, "le": 1}, "Least cosine; 0 keeps all."),
    "bm25_threshold": (float, {"ge": 0, "le": 1_000_000}, "Least BM25 score; 0 keeps all."),
    "rerank": (Literal[RERANKS], {}, "Who ranks results again: none, llm, endpoint or mixed."),
    "rerank_top_k": (int, {"ge": 1, "le": 200}, "How many results are ranked again."),
    "context_type": (Literal[CONTEXT_TYPES], {}, "How the context is laid out."),
    "context_tokens": (int, {"ge": 100, "le": 1_000_000}, "Most tokens of the context."),
    "content_types": (list[_TEXT], {"max_length": 100}, "Only files of these content types."),
    "metadata": (dict[str, Any], {}, "Only files whose metadata contains this."),
}  # fmt: skip


def _field(field: dataclasses.Field[Any]) -> Any:
    kind, limits, description = _SHAPES[field.name]
    make: Any = field.default_factory
    default = make() if field.default is dataclasses.MISSING else field.default
    default = list(default) if isinstance(default, tuple) else default
    return kind, Field(default, description=description, **limits)


class _Strict(Schema):
    model_config = ConfigDict(extra="forbid")


SettingsBody: type[Schema] = create_model(
    "RetrievalSettings",
    __base__=_Strict,
    **{field.name: _field(field) for field in dataclasses.fields(RetrievalSettings)},
)
