"""Starting, following and stopping answers, which are generated in the background of a process."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from agents import models
from agents.chat.answers.create import (
    MessageRequest,
    StartedAnswer,
    adopt_answer,
    create_answer,
)
from agents.chat.answers.event_log import fail_abandoned, last_seq
from agents.chat.answers.worker import AnswerWorker
from agents.chat.history.history import find_message
from agents.conf import agent_setting
from agents.core.chat_events import LAST_KINDS, ChatEvent
from rag.core.access import Scope
from rag.core.errors import ConflictError, RAGError
from rag.core.request_context import set_account
from rag.services.threads import run_thread_sensitive
from rag.services.usage import DeferredUsage, defer_to


def billing_context(*, chat: StartedAnswer, calls: DeferredUsage) -> contextvars.Context:
    """Return a context that has nothing of the request, whose threads end before the answer may.

    ``calls`` takes what its models cost until the answer's events are written.
    """
    context = contextvars.Context()
    context.run(
        set_account,
        chat.order.scope,
        kind="chat",
        agent=chat.order.agent.name,
        run=str(chat.answer.key),
        is_apart=True,
        free_until=chat.free_until,
    )
    context.run(defer_to, calls)
    return context


logger = logging.getLogger(__name__)
_RUNNING = models.Message.Status.RUNNING


async def start_answer(*, order: MessageRequest | Callable[[], MessageRequest]) -> StartedAnswer:
    """Write the question down and let the answer be written while the caller does something else.

    ``order`` may be what makes it: that runs on the thread and the connection that write it down.
    Raises what ``create_answer`` raises; what fails later is the answer's last event. Who is
    cancelled meanwhile leaves an answer that nobody hears: it is written to its end or stopped, as
    ``subscribe`` has it.
    """
    begun = asyncio.create_task(_begun(order))
    try:
        return await asyncio.shield(begun)
    except asyncio.CancelledError:
        # The rows are written whoever has left: without a worker they would look at work.
        begun.add_done_callback(_left)
        raise


async def _begun(order: MessageRequest | Callable[[], MessageRequest]) -> StartedAnswer:
    chat = await run_thread_sensitive(
        lambda: create_answer(order=order() if callable(order) else order)
    )
    worker = AnswerWorker(chat)
    await worker.log.append(
        "start",
        {
            "message": str(chat.answer.key),
            "question": str(chat.question.key),
            "session": str(chat.answer.session.key),
            "agent": chat.order.agent.name,
        },
    )
    context = billing_context(chat=chat, calls=worker.log.calls)
    worker.start(context)
    return chat


async def resume_answer(*, message_id: int) -> bool:
    """Begin an answer again that its process has left; False when nobody need any more.

    It is written beside the caller's next jobs. Where that may not be any more the answer fails.
    """
    try:
        chat = await run_thread_sensitive(adopt_answer, message_id=message_id)
    except RAGError as error:
        logger.warning("answer %s is not begun again: %s", message_id, error)
        mine = models.Message.objects.filter(pk=message_id, status=_RUNNING)
        await run_thread_sensitive(mine.update, worker=None, seen_at=None)
        await run_thread_sensitive(fail_abandoned, message_id=message_id)
        return False
    if chat is None:
        return False
    after = await run_thread_sensitive(last_seq, message_id=message_id)
    worker = AnswerWorker(chat, after)
    worker.start(billing_context(chat=chat, calls=worker.log.calls))
    return True


async def subscribe(*, message_id: int, after: int = 0) -> AsyncGenerator[ChatEvent, None]:
    """Yield the events with a number above ``after``.

    Leaving early stops the answer, unless ``AGENT_FINISHES_ALONE`` lets it be written to its end.
    """
    is_over = False
    try:
        async with aclosing(AnswerWorker.replay(message_id, after=after)) as events:
            async for event in events:
                is_over = event.kind in LAST_KINDS
                yield event
    finally:
        if not is_over and not agent_setting("FINISHES_ALONE"):
            AnswerWorker.stop_local(message_id)


async def stop_answer(*, key: str, scope: Scope) -> models.Message:
    """Stop an answer: here at once, in another process within two seconds.

    What was written stays. Raises NotFoundError, ConflictError when it has ended.
    """
    message = await run_thread_sensitive(find_message, key=key, scope=scope)
    if AnswerWorker.stop_local(message.pk):
        return message
    if not await run_thread_sensitive(_mark_stopped, message):
        raise ConflictError("The answer has ended already.")
    return message


def _mark_stopped(message: models.Message) -> bool:
    # What a dead process had written is kept with its answer, which has ended then.
    fail_abandoned(message_id=message.pk)
    mine = models.Message.objects.filter(pk=message.pk, status=_RUNNING)
    return bool(mine.update(status=models.Message.Status.STOPPED))


def _left(begun: asyncio.Task[StartedAnswer]) -> None:
    is_begun = not begun.cancelled() and begun.exception() is None
    if is_begun and not agent_setting("FINISHES_ALONE"):
        AnswerWorker.stop_local(begun.result().answer.pk)
