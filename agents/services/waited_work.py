"""Work on a thread of its own, waited for in its time. In: work, a deadline. Out: its future."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from agents.services.apart import in_waits
from rag.core.deadline import Deadline
from rag.core.errors import ProviderTimeoutError
from rag.services.source_threads import run_apart

R = TypeVar("R")


async def waited(work: Callable[[], R], *, name: str, deadline: Deadline) -> asyncio.Future[R]:
    """Return the future of ``work``, done; raise ProviderTimeoutError when the time is over.

    Work that nobody waits for any more, also by cancelling, learns it from the deadline. ``name``
    is that of the tool that works.
    """
    waiting: asyncio.Future[R] | None = None
    try:
        waiting = asyncio.wrap_future(await in_waits(run_apart, work, deadline=deadline))
        # What comes too late is nobody's any more.
        waiting.add_done_callback(lambda late: late.cancelled() or late.exception())
        await asyncio.wait({waiting}, timeout=deadline.remaining_s)
        if not waiting.done():
            raise ProviderTimeoutError(
                "The tool {name} did not answer within {timeout_s} s.",
                hint="Try again, or allow more time.",
                name=name, timeout_s=f"{deadline.timeout_s:g}",
            )  # fmt: skip
        return waiting
    finally:
        if waiting is None or not waiting.done():
            # The thread works on until it looks at the clock; what wakes it may take a while.
            asyncio.get_running_loop().run_in_executor(None, deadline.cancel)
