"""Starting and stopping answers: the answer is generated in a background task of this process."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable

from django.conf import settings

from agents import models
from agents.chat.answers.create import create_answer
from agents.chat.answers.lease import fail_abandoned
from agents.chat.answers.replay import cancel_local
from agents.chat.answers.request import MessageRequest, StartedAnswer
from agents.chat.answers.worker import AnswerWorker
from agents.chat.history.messages import find_message
from rag.core.access import Scope
from rag.core.errors import ConflictError
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
    chat = await run_thread_sensitive(_started, order)
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


async def stop_answer(*, key: str, scope: Scope) -> models.Message:
    """Stop an answer: here at once, in another process within two seconds.

    What was written stays. Raises NotFoundError, ConflictError when it has ended.
    """
    message = await run_thread_sensitive(find_message, key=key, scope=scope)
    worker = AnswerWorker.active.get(message.pk)
    if worker is not None:
        worker.stop()
        return message
    if not await run_thread_sensitive(_mark_stopped, message):
        raise ConflictError("The answer has ended already.")
    return message


def _started(order: MessageRequest | Callable[[], MessageRequest]) -> StartedAnswer:
    return create_answer(order=order() if callable(order) else order)


def _mark_stopped(message: models.Message) -> bool:
    # What a dead process had written is kept with its answer, which has ended then.
    fail_abandoned(message_id=message.pk)
    mine = models.Message.objects.filter(pk=message.pk, status=_RUNNING)
    return bool(mine.update(status=models.Message.Status.STOPPED))


def _left(begun: asyncio.Task[StartedAnswer]) -> None:
    is_begun = not begun.cancelled() and begun.exception() is None
    if is_begun and not settings.AGENTS["FINISHES_ALONE"]:
        cancel_local(message_id=begun.result().answer.pk)
