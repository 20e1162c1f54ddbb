"""What is asked of a data source and what became of it. Frozen; JSON-safe for states and APIs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from rag.core.errors import CancelledError, InvalidInputError, ProviderTimeoutError, RAGError
from rag.core.hits import Hit

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
