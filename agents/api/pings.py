"""Signs of life between events that are long in coming. In: events. Out: the same, None between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TypeVar

T = TypeVar("T")


async def with_pings(
    events: AsyncGenerator[T, None], every_s: float
) -> AsyncGenerator[T | None, None]:
    """Yield the events as they come, and None whenever none came for ``every_s`` seconds."""
    following: asyncio.Future[T] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({following}, timeout=every_s)
            if not done:
                yield None
                continue
            try:
                event = following.result()
            except StopAsyncIteration:
                return
            following = None
            yield event
    finally:
        if following is not None:
            following.cancel()
            # Whoever follows learns only when it has ended that nobody listens any more.
            await asyncio.wait({following})
        await events.aclose()
