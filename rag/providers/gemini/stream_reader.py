"""Stream reader for the SDK's iterators that ends when its consumer leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from rag.providers.gemini.client import sdk_errors
from rag.providers.remote.retry import Failure

if TYPE_CHECKING:
    from google.genai.types import GenerateContentResponse

    Chunks = AsyncIterator[GenerateContentResponse]


class StreamReader:
    """A stream read by a task of its own: only cancelling what reads it closes its connection;
    leaving or closing the SDK's iterator does not. ``failure`` says what an error means."""

    def __init__(self, chunks: Chunks, failure: Callable[[Exception, float], Failure]) -> None:
        self._failure = failure
        self._read: asyncio.Queue[GenerateContentResponse | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._pump(chunks))
        self._begun: list[GenerateContentResponse | None] = []

    @classmethod
    async def open(
        cls,
        start: Callable[[], Awaitable[Chunks]],
        left_s: float,
        failure: Callable[[Exception, float], Failure],
    ) -> StreamReader | Failure:
        """Return a reader that has its first chunk, or why there is none within ``left_s``."""
        async with AsyncExitStack() as undo:
            try:
                async with asyncio.timeout(left_s):
                    reader = cls(await start(), failure)
                    undo.push_async_callback(reader.stop)
                    # The SDK sends the request only now.
                    reader._begun.append(await reader._take())
            except sdk_errors() as error:
                return failure(error, left_s)
            undo.pop_all()
            return reader

    async def next(self, timeout_s: float) -> GenerateContentResponse | None:
        """Return the next chunk, None at the end; raise what the SDK's error means."""
        if self._begun:
            return self._begun.pop()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._take()
        except sdk_errors() as error:
            failure = self._failure(error, timeout_s)
        # Raised out here, so that the SDK's exception is no part of it.
        raise failure.error

    async def stop(self) -> None:
        """End the reading and with it the connection."""
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            # Taken, or asyncio logs it as never retrieved.
            self._task.exception()

    async def _take(self) -> GenerateContentResponse | None:
        chunk = await self._read.get()
        if chunk is None:
            await self._task
        return chunk

    async def _pump(self, chunks: Chunks) -> None:
        # The queue is unbounded, so that this only ever waits for the network.
        try:
            async for chunk in chunks:
                self._read.put_nowait(chunk)
        finally:
            self._read.put_nowait(None)
