"""Event stream: the events of a coroutine as an async iterator, ``done`` or ``error`` last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from agents.core.agent import Emit
from agents.core.chat_events import ChatEvent
from agents.runtime.error_codes import error_code
from rag.core.errors import RAGError


async def stream_events(
    work: Callable[[Emit], Awaitable[Mapping[str, Any]]],
) -> AsyncIterator[ChatEvent]:
    """Yield what ``work`` tells, then ``done`` with what it returns, or ``error``.

    Leaving the iteration cancels the work. What is no RAGError is raised.
    """
    queue: asyncio.Queue[tuple[str, Mapping[str, Any]] | None] = asyncio.Queue()

    async def emit(kind: str, data: Mapping[str, Any]) -> None:
        queue.put_nowait((kind, data))

    async def run() -> None:
        try:
            queue.put_nowait(("done", await work(emit)))
        except RAGError as error:
            told = {"code": error_code(error), "error": error.as_dict()}
            queue.put_nowait(("error", told))

    task = asyncio.create_task(run())
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        seq = 0
        while (item := await queue.get()) is not None:
            seq += 1
            yield ChatEvent(seq, *item)
        task.result()
    finally:
        task.cancel()
