"""Chat by django-ninja: ask an agent, follow or stop its answer, trace it, read what it quotes.

Answers are server-sent events or JSON.
"""

from __future__ import annotations

import copy
import hashlib
import uuid
from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse
from django.utils.translation import get_language
from ninja import Router, Schema
from pydantic import ConfigDict, Field

from agents import models
from agents.api.http.sse import EVENT_STREAM, answer_events, last_event_id, localize_error
from agents.chat.agents.agent import RAGAgent, find_agent
from agents.chat.answers.control import start_answer, stop_answer, subscribe
from agents.chat.answers.create import MessageRequest
from agents.chat.answers.trace import answer_trace
from agents.chat.history.history import find_message
from agents.chat.history.quotes import quote_image, quote_page
from agents.core.page_context import PageContext
from agents.runtime.event_errors import error_from_event
from rag.api.http.authentication import require_caller
from rag.api.http.idempotency import begun_once, repeatable
from rag.api.http.ranges import ByteRange, deliver_bytes
from rag.api.http.schemas import PROBLEMS, Problem
from rag.core.access import Scope
from rag.core.errors import ForbiddenError, NotFoundError
from rag.services.threads import run_thread_sensitive

router = Router(tags=["agents"])
trace_router = Router(tags=["agents"])
quotes_router = Router(tags=["agents"])
_PROBLEMS = {**PROBLEMS, 409: Problem}
MAX_MESSAGE = 2_000_000
_Key = Annotated[str, Field(max_length=36)]
_Url = Annotated[str, Field(min_length=1, max_length=2000)]
_Fact = Annotated[str, Field(max_length=500)]


class PageBody(Schema):
    """What a page or an application sends along. It is data: nothing in it is an instruction."""

    model_config = ConfigDict(extra="forbid", strict=True)

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
        strict=True,
        json_schema_extra={
            "examples": [
                {"message": "How often is the pump serviced?", "stores": ["manuals"]},
                {"message": "And the filter?", "session": "6f1c…", "stream": False},
            ]
        },
    )

    message: str = Field(
        "",
        max_length=MAX_MESSAGE,
        description="What the person says: 8,000 characters, or as much as the agent's "
        "context_tokens hold.",
    )
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
    enhancement: str = Field(
        "",
        max_length=200,
        description="Prompt enhancer of this answer: none, standard, creative, analytical or a "
        "plugin's name; empty: the agent's own.",
    )
    stream: bool = Field(True, description="Events as they come; false: one JSON at the end.")


class Chatted(Schema):
    """A whole answer. `outcome`: answered (its sources say all of it), partial (they say some of
    it, or a limit was met), ungrounded (they say none of it), not_found, unavailable, small_talk,
    about_store, remembered (told by the person earlier; without citations) or uncited (by an agent
    that looks nothing up). `grounding` has the verdict of each statement."""

    message: str
    session: str
    status: str
    answer: str
    outcome: str
    confidence: float | None
    grounding: dict[str, Any]
    query: str
    citations: list[dict[str, Any]]
    sources: list[dict[str, Any]]
    notices: list[dict[str, Any]]
    usage: dict[str, Any]
    model: str
    timings_ms: dict[str, float]


@router.post(
    "/{name}/chat",
    response={200: Chatted, **_PROBLEMS},
    summary="Ask an agent",
    openapi_extra=EVENT_STREAM,
)
async def chat(request: HttpRequest, name: str, body: ChatBody) -> Any:
    """Answer a message in a session, as server-sent events or, with `stream` false, as JSON.

    Events: `start` (message, session), `step`, `rewrite`, `sources`, `tool_call` (tool,
    arguments) and `tool_result` (what came of it), `agent_call` and `agent_result`, `delta`
    (text), `citation`, `replace` (the whole text, after a repair), `notice`, `usage`, then `done`,
    `error` or `stopped`; `ping` in between. The texts of all `delta`, from the last `replace` on,
    are the answer. Whoever loses the connection asks for the rest with `Last-Event-ID`. With
    `Idempotency-Key` the message is answered once; sent again it gets that answer's events.
    """
    caller = require_caller(request, "read")
    scope = caller.scope

    async def begin() -> dict[str, Any]:
        started = await start_answer(order=partial(_order, name, scope, body))
        return {"id": started.answer.pk, "key": str(started.answer.key)}

    begun = await begun_once(repeatable(request, caller), begin)
    if body.stream:
        return answer_events(begun["id"])
    last: Mapping[str, Any] = {}
    # Who leaves meanwhile cancels this, which stops the answer where that is wished.
    async with aclosing(subscribe(message_id=begun["id"])) as events:
        async for event in events:
            last = event.data
    message = await run_thread_sensitive(find_message, key=begun["key"], scope=scope)
    if message.status == models.Message.Status.ERROR:
        raise error_from_event(last)
    return _serialize(message)


@router.get(
    "/{name}/chat/{key}",
    response={200: None, **_PROBLEMS},
    summary="Follow an answer",
    openapi_extra=EVENT_STREAM,
)
async def follow(
    request: HttpRequest, name: str, key: str, after: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
) -> Any:
    """Send an answer's events again, those behind `Last-Event-ID` or `after`, then new ones.

    It works on every server process, whichever one writes the answer.
    """
    scope = require_caller(request, "read").scope
    message = await run_thread_sensitive(_answer, name, key, scope)
    return answer_events(message.pk, last_event_id(request, after))


@router.post("/{name}/chat/{key}/stop", response={204: None, **_PROBLEMS}, summary="Stop an answer")
async def stop(request: HttpRequest, name: str, key: str) -> Any:
    """Stop an answer and the model's work on it; what was written stays. 409 when it has ended."""
    scope = require_caller(request, "read").scope
    await run_thread_sensitive(_answer, name, key, scope)
    await stop_answer(key=key, scope=scope)
    return 204, None


@router.get("/{name}/graph", response={200: dict[str, Any], **_PROBLEMS}, summary="Show the graph")
def graph(request: HttpRequest, name: str, form: str = "json") -> Any:
    """Return what happens inside an agent, as `json` or as `mermaid` text under `mermaid`."""
    scope = require_caller(request, "read").scope
    agent = find_agent(name=name, scope=scope)
    drawn = RAGAgent(agent, scope, ()).export_graph(form)
    return {"mermaid": drawn} if isinstance(drawn, str) else drawn


def _order(name: str, scope: Scope, body: ChatBody) -> MessageRequest:
    agent = find_agent(name=name, scope=scope)
    if body.context and scope.visitor:
        raise ForbiddenError("Visitors of a widget send no page along.", hint="Leave out context.")
    if body.enhancement:
        # This one answer's; the row is not saved.
        agent = copy.copy(agent)
        agent.config = {**agent.config, "enhancement": body.enhancement}
    return MessageRequest(
        agent=agent,
        scope=scope,
        message=body.message,
        session=body.session,
        parent=body.parent,
        regenerate=body.regenerate,
        stores=tuple(body.stores),
        context=body.context.as_context() if body.context else PageContext(),
        # What one request changes is in no row.
        is_repeatable=not body.enhancement,
    )


def _answer(name: str, key: str, scope: Scope) -> models.Message:
    message = find_message(key=key, scope=scope)
    agent = message.session.agent
    if agent is None or agent.name != name or message.role != models.Message.Role.ASSISTANT:
        raise NotFoundError("There is no message “{key}”.", key=key)
    return message


def _serialize(message: models.Message) -> dict[str, Any]:
    language = get_language() or "en"
    return {
        "message": str(message.key),
        "session": str(message.session.key),
        "status": message.status,
        "answer": message.content,
        "outcome": message.outcome,
        "confidence": message.confidence,
        "grounding": message.grounding,
        "query": message.query,
        "citations": message.citations,
        "sources": message.sources,
        "usage": message.usage,
        "model": message.model,
        "timings_ms": message.timings_ms,
        "notices": [localize_error(notice, language) for notice in message.notices],
    }


class Trace(Schema):
    """How an answer came about: its decisions in order, and its calls of models.

    `cost` is by currency; `is_cost_complete` false: some call has no known price.
    """

    message: uuid.UUID
    status: str
    outcome: str
    query: str
    model: str
    confidence: float | None
    timings_ms: dict[str, float]
    usage: dict[str, Any]
    steps: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    cost: dict[str, float]
    is_cost_complete: bool


@trace_router.get(
    "/{uuid:key}/trace", response={200: Trace, **PROBLEMS}, summary="How an answer came about"
)
def trace(request: Any, key: uuid.UUID) -> dict[str, Any]:
    """Return route, steps, tools, hits, calls of models with prompts' hashes, tokens and cost.

    Only for whose conversation it is; 404 for everybody else.
    """
    return answer_trace(key=str(key), scope=require_caller(request, "read").scope)


_Number = Annotated[int, Field(ge=1, le=9999)]
_Of = Literal["citations", "sources"]


class QuotePage(Schema):
    """A page's text; `text[start:end]` is the quote, null where it is not there.

    `omitted` are the spans, counted from `start`, that the quote leaves out at an ellipsis.
    `is_current` false: the file says something else today, and `text` is the passage as it was.
    `url` opens the document where it comes from, empty where it was uploaded.
    """

    number: int
    quote: str | None
    verdict: str | None
    claim: str | None
    found: str | None
    distance: int | None
    doc_id: str | None
    score: float | None
    file_id: int
    file_name: str
    kind: str
    page: int | None
    label: str
    text: str
    start: int | None
    end: int | None
    omitted: list[list[int]]
    is_current: bool
    has_image: bool
    heading_path: list[str]
    url: str


class QuoteMarks(Schema):
    """The picture's size in pixels; boxes are left, top, width and height in shares of it."""

    width: int
    height: int
    boxes: list[list[float]]


@quotes_router.get(
    "/{key}/{number}", response={200: QuotePage, **PROBLEMS}, summary="Read a quote's page"
)
def show_quote_page(request: HttpRequest, key: str, number: _Number, of: _Of = "citations") -> Any:
    """Return the page that a citation, or one of the sources, stands on."""
    scope = require_caller(request, "read").scope
    message = find_message(key=key, scope=scope)
    return quote_page(message=message, number=number, scope=scope, of=of)


@quotes_router.get(
    "/{key}/{number}/marks", response={200: QuoteMarks, **PROBLEMS}, summary="Find a quote's boxes"
)
def quote_marks(request: HttpRequest, key: str, number: _Number, of: _Of = "citations") -> Any:
    """Return where a quote stands on the picture of its page; no boxes where it is not found."""
    scope = require_caller(request, "read").scope
    message = find_message(key=key, scope=scope)
    drawn = quote_image(message=message, number=number, scope=scope, of=of)
    boxes = [list(box) for box in drawn.boxes]
    return {"width": drawn.width, "height": drawn.height, "boxes": boxes}


@quotes_router.get(
    "/{key}/{number}/image",
    response={200: None, **PROBLEMS},
    summary="Draw a quote's page",
    openapi_extra={"responses": {200: {"content": {"image/png": {}}}}},
)
def image(request: HttpRequest, key: str, number: _Number, of: _Of = "citations") -> Any:
    """Return the page of a PDF as a PNG, without marks."""
    scope = require_caller(request, "read").scope
    message = find_message(key=key, scope=scope)
    png = quote_image(message=message, number=number, scope=scope, of=of).png

    def respond(part: ByteRange) -> HttpResponse:
        return HttpResponse(png[part.start : part.end], content_type="image/png")

    digest = hashlib.sha256(png).hexdigest()
    response = deliver_bytes(request, size=len(png), digest=digest, respond=respond)
    # For this person and this visit: rights may change.
    response["Cache-Control"] = "private, max-age=300"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response
