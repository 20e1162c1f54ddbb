"""On whose account an answer is written. In: a started chat. Out: the context of its task."""

from __future__ import annotations

import contextvars

from agents.services.chat_order import StartedChat
from rag.core.account import open_account


def context_of(*, chat: StartedChat) -> contextvars.Context:
    """Return a context that has nothing of the request, whose threads end before the answer may."""
    context = contextvars.Context()
    context.run(
        open_account, chat.order.scope, kind="chat", agent=chat.order.agent.name,
        run=str(chat.answer.key), is_apart=True,
    )  # fmt: skip
    return context
