"""Asking an agent. In: an order. Out: the answer's row when it is done, or its events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from django.conf import settings

from agents import models
from agents.services.chat_claim import end_abandoned
from agents.services.chat_context import context_of
from agents.services.chat_order import ChatOrder, StartedChat
from agents.services.chat_worker import AT_WORK, ChatWorker
from agents.services.find_message import message_called
from agents.services.hear_chat import stop_here
from agents.services.in_db import in_db
from agents.services.start_chat import start_chat
from rag.core.access import Scope
from rag.core.errors import ConflictError

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
    await worker.log.append("start", {
        "message": str(chat.answer.key), "question": str(chat.question.key),
        "session": str(chat.answer.session.key), "agent": chat.order.agent.name,
    })  # fmt: skip
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
