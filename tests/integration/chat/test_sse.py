"""Streams of events as bytes: names, ids, pings, the reader's language, and what a cut does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from agents import models
from agents.api.http.sse import answer_events, localize_error
from agents.chat.answers.control import start_answer
from agents.chat.answers.create import MessageRequest
from agents.chat.answers.sessions import delete_session
from rag.core.errors import ConflictError, UnknownNameError
from tests.integration.agent_world import AgentWorld, settled, sse_events, world

__all__ = ["world"]
SLOW = {"answers": [{"contains": "pump", "answer": "a b c d e f g h", "delay_s": 1.2}]}


async def begun(world: AgentWorld) -> models.Message:
    order = MessageRequest(
        agent=world.agent, scope=world.scope, message="How often is the pump serviced?"
    )
    return (await start_answer(order=order)).answer


async def body_of(response: Any, until: str = "") -> str:
    text = ""
    stream = response.streaming_content
    async for piece in stream:
        text += piece.decode()
        if until and until in text:
            break
    return text


async def test_events_have_ids_names_and_pings_between(world: AgentWorld, settings: Any) -> None:
    settings.AGENTS = {**settings.AGENTS, "PING_S": 0.05}
    world.use(SLOW)
    message = await begun(world)
    response = await sync_to_async(answer_events)(message.pk)
    text = await body_of(response)
    assert text.startswith("retry: 2000\n\nid: 1\nevent: start\ndata: {")
    kinds = [kind for _, kind, _ in sse_events(text)]
    assert "ping" in kinds and kinds[-1] == "done"
    assert all(seq == 0 for seq, kind, _ in sse_events(text) if kind == "ping")
    await settled()
    again = await body_of(answer_events(message.pk, after=len(kinds) - kinds.count("ping") - 1))
    # A ping may come first: they are sent every twentieth of a second here.
    assert [kind for _, kind, _ in sse_events(again) if kind != "ping"] == ["done"]


async def test_who_follows_is_told_when_the_session_is_deleted(
    world: AgentWorld, settings: Any
) -> None:
    settings.AGENTS = {**settings.AGENTS, "PING_S": 0.05}
    world.use(SLOW)
    message = await begun(world)
    response = await sync_to_async(answer_events)(message.pk)
    told = await body_of(response, until="event: ping")
    session = await sync_to_async(lambda: message.session)()
    await sync_to_async(delete_session)(session=session)
    told += await body_of(response)
    assert [kind for _, kind, _ in sse_events(told)][-1] == "stopped"
    await settled()
    gone = sse_events(await body_of(answer_events(message.pk)))
    # A ping may come first: they are sent every twentieth of a second here.
    told_last = [(kind, data["text"]) for _, kind, data in gone if kind != "ping"]
    assert told_last == [("stopped", "")]


@pytest.mark.parametrize(("finishes", "status"), [(True, "done"), (False, "stopped")])
async def test_a_cut_ends_the_answer_only_where_that_is_wished(
    world: AgentWorld, settings: Any, finishes: bool, status: str
) -> None:
    settings.AGENTS = {**settings.AGENTS, "FINISHES_ALONE": finishes}
    world.use(SLOW)
    message = await begun(world)
    response = answer_events(message.pk)

    async def read() -> None:
        await body_of(response)

    reader = asyncio.create_task(read())
    while not await models.MessageEvent.objects.filter(message=message, kind="delta").aexists():
        await asyncio.sleep(0.05)
    # As a server does when the connection is gone.
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await settled()
    await message.arefresh_from_db()
    assert message.status == status
    assert message.content == "a b c d e f g h" or status == "stopped"


def test_errors_are_told_in_the_readers_language() -> None:
    error = ConflictError("The answer has ended already.").as_dict()
    assert localize_error({"error": error, "code": "conflict"}, "en") == {
        "code": "conflict",
        "error": {"message": "The answer has ended already.", "hint": "", "params": {}},
    }
    assert (
        localize_error({"error": error}, "zh-hans")["error"]["message"]
        != "The answer has ended already."
    )
    unknown = UnknownNameError("retrieval mode", "x", ["a", "b"]).as_dict()
    assert localize_error({"error": unknown}, "en")["error"]["hint"] == "Known: a, b."
    assert localize_error({"text": "x"}, "en") == {"text": "x"}
