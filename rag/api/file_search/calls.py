"""Cancellable calls: sync work of an async view, cancelled when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from rag.core.deadline import Deadline

P = ParamSpec("P")
T = TypeVar("T")


async def run_cancellable(
    deadline: Deadline, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return what ``work`` returns, on the database's thread; who goes away cancels it."""
    try:
        found: Any = await sync_to_async(work)(*args, **kwargs)
    except asyncio.CancelledError:
        deadline.cancel()
        raise
    return found  # type: ignore[no-any-return]
