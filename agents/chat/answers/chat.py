"""Asking an agent. In: an order. Out: the answer's row when it is done, or its events.

On whose account an answer is written. In: a started chat. Out: the context of its task.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable

from django.conf import settings

from agents import models
from agents.chat.answers.claim import end_abandoned
from agents.chat.answers.follow import stop_here
from agents.chat.answers.order import ChatOrder, StartedChat
from agents.chat.answers.start import start_chat
from agents.chat.answers.worker import AT_WORK, ChatWorker
from agents.chat.history.messages import message_called
from agents.runtime.db import in_db
from rag.core.access import Scope
from rag.core.account import open_account
from rag.core.errors import ConflictError
from rag.services.usage.ledger import Later, written_by


def context_of(*, chat: StartedChat, calls: Later) -> contextvars.Context:
    """Return a context that has nothing of the request, whose threads end before the answer may.

    ``calls`` takes what its models cost until the answer's events are written.
    """
    context = contextvars.Context()
    context.run(
        open_account,
        chat.order.scope,
        kind="chat",
        agent=chat.order.agent.name,
        run=str(chat.answer.key),
        is_apart=True,
        free_until=chat.free_until,
    )
    context.run(written_by, calls)
    return context


logger = logging.getLogger(__name__)
_TASKS: set[asyncio.Task[None]] = set()
_RUNNING = models.Message.Status.RUNNING


async def begin_chat(*, order: ChatOrder | Callable[[], ChatOrder]) -> StartedChat:
    """Write the question down and let the answer be written while the caller does something else.

    ``order`` may be what makes it: that runs on the thread and the connection that write it down.
    Raises what ``start_chat`` raises; what fails later is the answer's last event. Who is cancelled
    meanwhile leaves an answer that nobody hears: it is written to its end or stopped, as
    ``hear_chat`` has it.
    """
    begun = asyncio.create_task(_begun(order))
    try:
        return await asyncio.shield(begun)
    except asyncio.CancelledError:
        # The rows are written whoever has left: without a worker they would look at work.
        begun.add_done_callback(_left)
        raise


async def _begun(order: ChatOrder | Callable[[], ChatOrder]) -> StartedChat:
    chat = await in_db(_started, order)
    worker = ChatWorker(chat)
    await worker.log.append(
        "start",
        {
            "message": str(chat.answer.key),
            "question": str(chat.question.key),
            "session": str(chat.answer.session.key),
            "agent": chat.order.agent.name,
        },
    )
    context = context_of(chat=chat, calls=worker.log.calls)
    task = asyncio.create_task(worker.work(), context=context, name=str(chat.answer.key))
    _TASKS.add(task)
    task.add_done_callback(_ended)
    return chat


async def stop_chat(*, key: str, scope: Scope) -> models.Message:
    """Stop an answer: here at once, in another process within two seconds.

    What was written stays. Raises NotFoundError, ConflictError when it has ended.
    """
    message = await in_db(message_called, key=key, scope=scope)
    worker = AT_WORK.get(message.pk)
    if worker is not None:
        worker.stop()
        return message
    if not await in_db(_mark_stopped, message):
        raise ConflictError("The answer has ended already.")
    return message


def _started(order: ChatOrder | Callable[[], ChatOrder]) -> StartedChat:
    return start_chat(order=order() if callable(order) else order)


def _mark_stopped(message: models.Message) -> bool:
    # What a dead process had written is kept with its answer, which has ended then.
    end_abandoned(message_id=message.pk)
    mine = models.Message.objects.filter(pk=message.pk, status=_RUNNING)
    return bool(mine.update(status=models.Message.Status.STOPPED))


def _left(begun: asyncio.Task[StartedChat]) -> None:
    is_begun = not begun.cancelled() and begun.exception() is None
    if is_begun and not settings.AGENTS["FINISHES_ALONE"]:
        stop_here(message_id=begun.result().answer.pk)


def _ended(task: asyncio.Task[None]) -> None:
    _TASKS.discard(task)
    if not task.cancelled() and (fault := task.exception()) is not None:
        logger.error("the answer %s has a fault", task.get_name(), exc_info=fault)
