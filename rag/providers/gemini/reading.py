"""Stream reader for the SDK's iterators that ends when its consumer leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.genai.types import GenerateContentResponse


class Reading:
    """A stream read by a task of its own: only cancelling what reads it closes its connection;
    leaving or closing the SDK's iterator does not."""

    def __init__(self, chunks: AsyncIterator[GenerateContentResponse]) -> None:
        self._read: asyncio.Queue[GenerateContentResponse | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._pump(chunks))
        self._begun: list[GenerateContentResponse | None] = []

    async def begin(self) -> None:
        """Wait for the first chunk and keep it for ``next``; raise what the SDK raised."""
        self._begun.append(await self.next())

    async def next(self) -> GenerateContentResponse | None:
        """Return the next chunk, None at the end; raise what the SDK raised."""
        if self._begun:
            return self._begun.pop()
        chunk = await self._read.get()
        if chunk is None:
            await self._task
        return chunk

    async def stop(self) -> None:
        """End the reading and with it the connection."""
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            # Taken, or asyncio logs it as never retrieved.
            self._task.exception()

    async def _pump(self, chunks: AsyncIterator[GenerateContentResponse]) -> None:
        # The queue is unbounded, so that this only ever waits for the network.
        try:
            async for chunk in chunks:
                self._read.put_nowait(chunk)
        finally:
            self._read.put_nowait(None)
