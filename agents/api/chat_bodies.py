"""The shapes of questions to agents and their answers. In: JSON. Out: JSON."""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Schema
from pydantic import ConfigDict, Field

_Key = Annotated[str, Field(max_length=36)]


class ChatBody(Schema):
    """A message, or an answer that shall be written again."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"message": "How often is the pump serviced?", "stores": ["manuals"]},
                {"message": "And the filter?", "session": "6f1c…", "stream": False},
            ]
        },
    )

    message: str = Field("", max_length=8000, description="What the person says.")
    session: _Key = Field("", description="The session to go on with; empty begins a new one.")
    parent: _Key = Field(
        "", description="The message to go on from, instead of the session's end: a branch."
    )
    regenerate: _Key = Field("", description="The answer to write again, instead of a message.")
    stores: list[Annotated[str, Field(min_length=1, max_length=512)]] = Field(
        default_factory=list, max_length=50,
        description="Where to look, by slug, name or resource name; empty: the agent's own, or "
        "all that you may read.",
    )  # fmt: skip
    stream: bool = Field(True, description="Events as they come; false: one JSON at the end.")


class Chatted(Schema):
    """A whole answer. `outcome`: answered, unknown, unavailable, small_talk or about_store."""

    message: str
    session: str
    status: str
    answer: str
    outcome: str
    confidence: float | None
    query: str
    citations: list[dict[str, Any]]
    sources: list[dict[str, Any]]
    notices: list[dict[str, Any]]
    usage: dict[str, Any]
    model: str
    timings_ms: dict[str, float]


class Problem(Schema):
    """The shape of every error."""

    error: dict[str, Any]
