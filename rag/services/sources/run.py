"""Data source runner: one call, or several concurrently; failures are outcomes, JSON-safe."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError as FutureCancelledError
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Self

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import (
    CancelledError,
    InvalidInputError,
    ProviderError,
    ProviderTimeoutError,
    RAGError,
)
from rag.core.hits import Hit
from rag.core.options import read_options
from rag.core.plugins import PLUGINS
from rag.core.sources import SourceQuery, SourceResult
from rag.services.sources.ports import SourceContext
from rag.services.threads import start_detached

Status = Literal["ok", "empty", "error", "timeout", "cancelled"]
_MAX_TIMEOUT_S, _MAX_RETRIES = 600, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCall:
    """One call: ``name`` is the caller's own, ``plugin`` the kind of source.

    ``timeout_s`` holds for all tries together; ``retries`` follow only what may pass by itself.
    """

    name: str
    plugin: str
    options: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 10.0
    retries: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.timeout_s <= _MAX_TIMEOUT_S:
            self._refuse("timeout_s", self.timeout_s, f"0 < … ≤ {_MAX_TIMEOUT_S}")
        if not 0 <= self.retries <= _MAX_RETRIES:
            self._refuse("retries", self.retries, f"0 ≤ … ≤ {_MAX_RETRIES}")

    def _refuse(self, what: str, value: float, allowed: str) -> None:
        raise InvalidInputError(
            "{what} of the source “{name}” is {value}.",
            hint="Allowed: {allowed}.",
            what=what,
            name=self.name,
            value=value,
            allowed=allowed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOutcome:
    """What became of a call. ``error`` is set unless the status is ok or empty."""

    name: str
    plugin: str
    status: Status
    hits: tuple[Hit, ...] = ()
    notes: tuple[str, ...] = ()
    error: RAGError | None = None
    attempts: int = 1
    duration_ms: float = 0.0

    @classmethod
    def failed(cls, call: SourceCall, error: RAGError, **figures: Any) -> Self:
        """Return the outcome of a call that ended with ``error``, which decides the status."""
        status: Status = "error"
        if isinstance(error, CancelledError):
            status = "cancelled"
        elif isinstance(error, ProviderTimeoutError):
            status = "timeout"
        return cls(name=call.name, plugin=call.plugin, status=status, error=error, **figures)

    @property
    def message(self) -> str:
        """Return what went wrong as one sentence, empty when nothing did."""
        return str(self.error) if self.error else ""

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-safe form; ``error`` is a template that an edge may translate."""
        return {
            "name": self.name,
            "plugin": self.plugin,
            "status": self.status,
            "message": self.message,
            "error": self.error.as_dict() if self.error else None,
            "hits": [hit.as_dict() for hit in self.hits],
            "notes": list(self.notes),
            "attempts": self.attempts,
            "duration_ms": round(self.duration_ms, 1),
        }


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
