"""On whose account an answer is written. In: a started chat. Out: the context of its task."""

from __future__ import annotations

import contextvars

from agents.services.chat_order import StartedChat
from rag.core.account import open_account
from rag.services.usage_later import Later, written_by


def context_of(*, chat: StartedChat, calls: Later) -> contextvars.Context:
    """Return a context that has nothing of the request, whose threads end before the answer may.

    ``calls`` takes what its models cost until the answer's events are written.
    """
    context = contextvars.Context()
    context.run(
        open_account, chat.order.scope, kind="chat", agent=chat.order.agent.name,
        run=str(chat.answer.key), is_apart=True, free_until=chat.free_until,
    )  # fmt: skip
    context.run(written_by, calls)
    return context
