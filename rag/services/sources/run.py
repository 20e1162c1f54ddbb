"""Data source runner: one source, or several concurrently; failures are outcomes."""

from __future__ import annotations

import logging
import threading
import time
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
from rag.core.options import read_options
from rag.core.plugins import PLUGINS
from rag.core.sources import SourceQuery, SourceResult
from rag.services.sources.calls import SourceCall, SourceOutcome
from rag.services.sources.ports import SourceContext
from rag.services.threads import start_detached

_FIRST_PAUSE_S = 0.1


def ask_source(*, call: SourceCall, query: SourceQuery) -> SourceOutcome:
    """Return hits or the error; a ProviderError is followed by ``call.retries`` further tries.

    Raises what is no RAGError, which is a fault of the plugin.
    """
    started, attempts = time.perf_counter(), 0
    while True:
        attempts += 1
        try:
            plugin = PLUGINS.get("source", call.plugin)
            source = plugin(read_options(plugin.Options, call.options, of=call.plugin))
            result = source.retrieve(query)
            if not isinstance(result, SourceResult):
                raise TypeError(f"{call.plugin}.retrieve returned {type(result).__name__}")
        except RAGError as error:
            pause_s = _FIRST_PAUSE_S * 2 ** (attempts - 1)
            is_transient = isinstance(error, ProviderError) and attempts <= call.retries
            if is_transient and query.deadline.remaining_s > pause_s:
                time.sleep(pause_s)
                continue
            duration_ms = (time.perf_counter() - started) * 1e3
            return SourceOutcome.failed(call, error, attempts=attempts, duration_ms=duration_ms)
        return SourceOutcome(
            name=call.name,
            plugin=call.plugin,
            status="ok" if result.hits else "empty",
            hits=result.hits,
            notes=result.notes,
            attempts=attempts,
            duration_ms=(time.perf_counter() - started) * 1e3,
        )


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
            query = SourceQuery(text, scope, limit, SourceContext(), {"user_query": text, **values})
            futures.append(
                start_detached(partial(ask_source, call=call, query=query), deadline=limit)
            )
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
                name=call.name,
                timeout_s=f"{limit.timeout_s:g}",
            )
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
                "The source “{name}” has a fault ({kind}).",
                hint="The server's log says where.",
                name=call.name,
                kind=type(fault).__name__,
            )
    return SourceOutcome.failed(
        call, error, duration_ms=(limit.timeout_s - limit.remaining_s) * 1e3
    )
