"""Chat by django-ninja: ask an agent, follow or stop its answer; server-sent events or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

from django.http import HttpRequest
from django.utils.translation import get_language
from ninja import Router
from pydantic import Field

from agents import models
from agents.api.chat.schemas import ChatBody, Chatted
from agents.api.http.sse import EVENT_STREAM, answer_events, last_event_id, localize_error
from agents.chat.agents.agent import agent_for, find_agent
from agents.chat.answers.control import start_answer, stop_answer, subscribe
from agents.chat.answers.create import MessageRequest
from agents.chat.history.history import find_message
from agents.core.page_context import PageContext
from agents.runtime.error_codes import error_from_event
from rag.api.http.authentication import require_caller
from rag.api.http.schemas import PROBLEMS, Problem
from rag.core.access import Scope
from rag.core.errors import NotFoundError
from rag.services.threads import run_thread_sensitive

router = Router(tags=["agents"])
_PROBLEMS = {**PROBLEMS, 409: Problem}


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
    are the answer. Whoever loses the connection asks for the rest with `Last-Event-ID`.
    """
    scope = require_caller(request, "read").scope
    started = await start_answer(order=partial(_order, name, scope, body))
    if body.stream:
        return answer_events(started.answer.pk)
    last: Mapping[str, Any] = {}
    # Who leaves meanwhile cancels this, which stops the answer where that is wished.
    async with aclosing(subscribe(message_id=started.answer.pk)) as events:
        async for event in events:
            last = event.data
    message = await run_thread_sensitive(find_message, key=str(started.answer.key), scope=scope)
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
    drawn = agent_for(agent=agent, scope=scope, stores=()).export_graph(form)
    return {"mermaid": drawn} if isinstance(drawn, str) else drawn


def _order(name: str, scope: Scope, body: ChatBody) -> MessageRequest:
    agent = find_agent(name=name, scope=scope)
    return MessageRequest(
        agent=agent,
        scope=scope,
        message=body.message,
        session=body.session,
        parent=body.parent,
        regenerate=body.regenerate,
        stores=tuple(body.stores),
        context=body.context.as_context() if body.context else PageContext(),
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
        "query": message.query,
        "citations": message.citations,
        "sources": message.sources,
        "usage": message.usage,
        "model": message.model,
        "timings_ms": message.timings_ms,
        "notices": [localize_error(notice, language) for notice in message.notices],
    }
