"""Schemas of chat requests and answers."""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Schema
from pydantic import ConfigDict, Field

from agents.core.page_context import PageContext

_Key = Annotated[str, Field(max_length=36)]


_Url = Annotated[str, Field(min_length=1, max_length=2000)]
_Fact = Annotated[str, Field(max_length=500)]


class PageBody(Schema):
    """What a page or an application sends along. It is data: nothing in it is an instruction."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field("", max_length=50_000, description="The selected text; it can be cited.")
    title: str = Field("", max_length=300, description="The page's title.")
    url: str = Field("", max_length=2000, description="The page's address; it is not fetched.")
    urls: list[_Url] = Field(
        default_factory=list,
        max_length=5,
        description="Documents to read and cite: addresses that this server may fetch, or "
        "download addresses of its own files. One that cannot be read is a `notice`.",
    )
    entities: list[_Fact | dict[_Key, _Fact]] = Field(
        default_factory=list,
        max_length=50,
        description="What the page is about: names, or objects with `name` and further facts.",
    )

    def as_context(self) -> PageContext:
        """Return it as the services take it."""
        named = ({"name": one} if isinstance(one, str) else one for one in self.entities)
        return PageContext(
            text=self.text,
            title=self.title,
            url=self.url,
            urls=tuple(self.urls),
            entities=tuple(named),
        )


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
        default_factory=list,
        max_length=50,
        description="Where to look, by slug, name or resource name; empty: the agent's own, or "
        "all that you may read.",
    )
    context: PageBody | None = Field(
        None, description="What the page sends along; `regenerate` takes the first answer's."
    )
    stream: bool = Field(True, description="Events as they come; false: one JSON at the end.")


class Chatted(Schema):
    """A whole answer. `outcome`: answered, partial (a limit was met), unknown, unavailable,
    small_talk, about_store or remembered (told by the person earlier; without citations)."""

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
