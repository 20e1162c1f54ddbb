"""Concurrent awaiting: results in order; when one fails, the rest are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

R = TypeVar("R")


async def gather_or_cancel(works: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """Return what each work returns; raise what the first to fail raises, the others cancelled."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
