"""Deadline runner: a coroutine on an event loop and thread of its own, cancelled at its deadline.

Blocking calls run on a loop of their own in a thread of their own: only so can a cancelled call
leave a read that hangs, and what it tells of its progress reach the caller's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from rag.core.deadline import Deadline
from rag.core.errors import ProviderTimeoutError

# A request that ends at the same moment says better what did not answer.
GRACE_S = 0.1
T = TypeVar("T")
OnProgress = Callable[[float], None]


async def await_within(deadline: Deadline, work: Coroutine[Any, Any, T]) -> T:
    """Return what ``work`` returns; raise CancelledError or ProviderTimeoutError once it is over.

    ``work`` is cancelled then, and so it is when the caller's own task is.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)

    def wake() -> None:
        # The loop may have ended between the caller's two looks.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(task.cancel)

    try:
        with deadline.on_cancel(wake):
            await asyncio.wait({task}, timeout=deadline.remaining_s + GRACE_S)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                # Taken, or asyncio logs it as never retrieved.
                task.exception()
    if not task.cancelled():
        return task.result()
    deadline.check()
    raise ProviderTimeoutError(
        "There was no answer within {timeout_s} s.",
        hint="Try again, or allow more time.",
        timeout_s=f"{deadline.timeout_s:g}",
    )


def run_within(
    deadline: Deadline,
    work: Callable[[OnProgress], Coroutine[Any, Any, T]],
    *,
    tell: OnProgress | None = None,
) -> T:
    """Return what ``work`` returns, run on a loop of its own; raise as ``await_within`` does.

    What ``work`` says to the function that it is given reaches ``tell`` in the caller's thread.
    """
    said: queue.SimpleQueue[float | None] = queue.SimpleQueue()

    async def run() -> T:
        return await await_within(deadline, work(said.put))

    with ThreadPoolExecutor(1, thread_name_prefix="gemini") as pool:
        future = pool.submit(lambda: asyncio.run(run()))
        future.add_done_callback(lambda _: said.put(None))
        try:
            while (share := said.get()) is not None:
                if tell is not None:
                    tell(share)
        except BaseException:
            # The caller has gone, or what it wanted to be told went wrong: nobody waits.
            deadline.cancel()
            raise
        return future.result()


@contextlib.contextmanager
def reserve_time(deadline: Deadline, spare_s: float) -> Iterator[Deadline]:
    """Give a deadline that ends ``spare_s`` earlier, but at most a tenth, for cleaning up.

    It is cancelled together with ``deadline``.
    """
    left_s = deadline.remaining_s
    earlier = Deadline(round(left_s - min(spare_s, left_s / 10), 2))
    with deadline.on_cancel(earlier.cancel):
        yield earlier
