"""The shapes of retrieval and answers. In: JSON, checked by pydantic. Out: JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from rag.api.settings_schema import SettingsBody

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
        json_schema_extra={
            "examples": [{"query": "How often is the pump serviced?", "stores": ["manuals"]}]
        },
    )

    query: _Question
    stores: _Stores
    settings: _Settings = None


class Retrieved(Schema):
    """What was found. Each hit tells content, score, content_type, document_id and source."""

    hits: list[dict[str, Any]]
    context: str
    enhanced_prompt: str | None
    metadata: dict[str, Any]


class Answered(Schema):
    """An answer with its citations and the hits that they point to."""

    answer: str
    citations: list[dict[str, Any]]
    hits: list[dict[str, Any]]
    model: str
    notice: str
    metadata: dict[str, Any]


class Problem(Schema):
    """The shape of every error."""

    error: dict[str, Any] = Field(
        description="code, message, hint, params; fields when values cannot be taken."
    )
