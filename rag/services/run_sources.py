"""Several data sources at once. In: calls and a question. Out: what each found, or how it failed.

Synchronous; async callers go through ``sync_to_async(run_sources, thread_sensitive=False)``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError as FutureCancelledError
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from typing import Any

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import (
    CancelledError,
    InvalidInputError,
    ProviderError,
    ProviderTimeoutError,
    RAGError,
)
from rag.core.sources import SourceQuery
from rag.services.ask_source import ask_source
from rag.services.source_calls import SourceCall, SourceOutcome
from rag.services.source_ports import HousePorts
from rag.services.source_threads import run_apart

logger = logging.getLogger(__name__)


def run_sources(
    *,
    calls: Sequence[SourceCall],
    text: str,
    scope: Scope,
    values: Mapping[str, Any],
    deadline: Deadline | None = None,
) -> list[SourceOutcome]:
    """Return one outcome per call, in their order, no later than the longest ``timeout_s``.

    No call waits for another. ``deadline`` bounds and cancels them all; one that is over or
    cancelled already raises. Raises InvalidInputError when two calls have one name.
    """
    names = [call.name for call in calls]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InvalidInputError(
            "Two sources have the name “{name}”.", hint="Rename one of them.", name=min(twice)
        )
    limit_s = float("inf")
    if deadline:
        deadline.check()
        limit_s = deadline.remaining_s
    limits = [Deadline(min(call.timeout_s, limit_s)) for call in calls]
    futures: list[Future[SourceOutcome]] = []

    def cancel() -> None:
        for future in list(futures):
            future.cancel()
        for limit in limits:
            limit.cancel()

    with deadline.on_cancel(cancel) if deadline else nullcontext():
        for call, limit in zip(calls, limits, strict=True):
            query = SourceQuery(text, scope, limit, HousePorts(), {"user_query": text, **values})
            futures.append(run_apart(partial(ask_source, call=call, query=query), deadline=limit))
        return [
            _outcome(call, limit, future)
            for call, limit, future in zip(calls, limits, futures, strict=True)
        ]


def _outcome(call: SourceCall, limit: Deadline, future: Future[SourceOutcome]) -> SourceOutcome:
    try:
        # One that was cancelled before its future was there has nothing that wakes us up.
        fault = future.exception(timeout=0 if limit.is_cancelled else limit.remaining_s)
    except (TimeoutError, FutureCancelledError):
        if limit.is_cancelled:
            error: RAGError = CancelledError("The call was cancelled.")
        else:
            error = ProviderTimeoutError(
                "The source “{name}” did not answer within {timeout_s} s.",
                hint="Try again, or allow more time.",
                name=call.name, timeout_s=f"{limit.timeout_s:g}",
            )  # fmt: skip
            logger.warning("the source %s (%s): %s", call.name, call.plugin, error)
            # What wakes the source up may itself take a while.
            threading.Thread(target=limit.cancel, daemon=True).start()
    else:
        if fault is None:
            return future.result()
        if isinstance(fault, RAGError):
            error = fault
        else:
            logger.error("the source %s (%s) has a fault", call.name, call.plugin, exc_info=fault)
            error = ProviderError(
                "The source “{name}” has a fault ({kind}).", hint="The server's log says where.",
                name=call.name, kind=type(fault).__name__,
            )  # fmt: skip
    return SourceOutcome.failed(
        call, error, duration_ms=(limit.timeout_s - limit.remaining_s) * 1e3
    )
