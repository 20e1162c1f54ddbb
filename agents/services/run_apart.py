"""Slow work of flows on threads of its own. In: a function. Out: its result.

Sources have threads themselves; here somebody waits for them, or a tool or a file works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from agents.services.in_db import release
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.tools import call_tool
from rag.services.plugins import make_plugin
from rag.services.source_ports import HousePorts

P = ParamSpec("P")
R = TypeVar("R")
_THREADS = ThreadPoolExecutor(64, "flow")


async def run_apart(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what ``work`` returns; its thread's connections go back to the pool."""

    def released() -> R:
        try:
            return work(*args, **kwargs)
        finally:
            release()

    return await sync_to_async(released, thread_sensitive=False, executor=_THREADS)()


def run_tool(
    *, name: str, arguments: Mapping[str, Any], scope: Scope, deadline: Deadline
) -> dict[str, Any]:
    """Return a tool plugin's answer; raise UnknownNameError, InvalidInputError, ProviderError."""
    tool = make_plugin(kind="tool", name=name)
    return call_tool(tool, arguments, scope=scope, deadline=deadline, ports=HousePorts())
