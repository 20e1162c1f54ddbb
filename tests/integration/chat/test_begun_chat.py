"""Who leaves while a question is being written down leaves no answer behind that nobody writes."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents import models
from agents.chat.answers import control as chat
from agents.chat.answers.create import MessageRequest
from agents.chat.answers.worker import AnswerWorker
from rag.services.threads import run_thread_sensitive
from tests.integration.agent_world import CITED, AgentWorld, settled, world

__all__ = ["world"]
QUESTION = "How often is the pump serviced?"


async def left_early(world: AgentWorld, after_s: float) -> None:
    order = MessageRequest(agent=world.agent, scope=world.scope, message=QUESTION)
    task = asyncio.create_task(chat.start_answer(order=order))
    await asyncio.sleep(after_s)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        while not await run_thread_sensitive(
            models.Message.objects.filter(role="assistant").exists
        ):
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    await settled()


@pytest.mark.parametrize(("finishes", "status"), [(True, "done"), (False, "stopped")])
def test_an_answer_that_was_ordered_is_written_or_stopped(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch, settings: Any, finishes: bool, status: str
) -> None:
    settings.AGENTS = {**settings.AGENTS, "FINISHES_ALONE": finishes}
    real = chat.create_answer

    def slowly(**given: Any) -> Any:
        time.sleep(0.2)
        return real(**given)

    monkeypatch.setattr(chat, "create_answer", slowly)
    world.use(CITED)
    async_to_sync(left_early)(world, 0.05)
    answer = models.Message.objects.get(role="assistant")
    assert answer.status == status
    # The conversation can go on at once.
    assert world.ask(QUESTION, session=str(answer.session.key)).row.status == "done"


def test_what_cannot_be_asked_is_an_error_as_before(world: AgentWorld) -> None:
    with pytest.raises(chat.ConflictError):
        world.ask(QUESTION, session=str(models.Session.objects.create(user=world.user).key))


async def test_an_answer_that_is_stopped_before_it_begins_asks_no_model(world: AgentWorld) -> None:
    model = world.use(CITED)
    order = MessageRequest(agent=world.agent, scope=world.scope, message=QUESTION)
    worker = AnswerWorker(await run_thread_sensitive(chat.create_answer, order=order))
    worker.stop()
    await asyncio.sleep(0.01)
    await asyncio.create_task(worker.work())
    answer = await run_thread_sensitive(models.Message.objects.get, pk=worker.chat.answer.pk)
    assert (answer.status, model.requests) == ("stopped", [])
