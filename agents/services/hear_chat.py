"""Listening to an answer that was begun here. In: an answer. Out: its events, to the end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from django.conf import settings

from agents.core.chat import LAST_KINDS, ChatEvent
from agents.services.chat_worker import AT_WORK
from agents.services.follow_chat import follow_chat


async def hear_chat(*, message_id: int, after: int = 0) -> AsyncGenerator[ChatEvent, None]:
    """Yield the events with a number above ``after``.

    Leaving early stops the answer, unless ``AGENT_FINISHES_ALONE`` lets it be written to its end.
    """
    is_over = False
    events: Any = follow_chat(message_id=message_id, after=after)
    try:
        async with aclosing(events):
            async for event in events:
                is_over = event.kind in LAST_KINDS
                yield event
    finally:
        if not is_over and not settings.AGENTS["FINISHES_ALONE"]:
            stop_here(message_id=message_id)


def stop_here(*, message_id: int) -> None:
    """Stop an answer that this process writes, and the model's work on it."""
    worker = AT_WORK.get(message_id)
    if worker is not None:
        worker.stop()
