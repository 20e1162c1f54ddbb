"""How a contract calls a source: the question, what the house lends, a thread to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ConfigurationError, UnknownNameError
from rag.core.sources import SourceResult


@dataclass(frozen=True, slots=True)
class Ask:
    """One call of the source: what is asked, with which options and values, by whom.

    ``options`` None are the subclass's ``options``; ``scope`` None is the subclass's ``scope()``.
    """

    text: str
    options: Mapping[str, Any] | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    scope: Scope | None = None


class LentPorts:
    """Ports for a source that needs none of the house but its secrets."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets

    def secret(self, name: str, *, url: str = "") -> str:
        """Return a secret of the test."""
        if name not in self._secrets:
            raise UnknownNameError("secret", name, self._secrets)
        return self._secrets[name]

    def search(self, query: str, **_: Any) -> Any:
        """Refuse: a source that searches our stores overrides ``ports()``."""
        raise ConfigurationError("This test lends no search.", hint="Override ports().")

    def embed_query(self, text: str, *, model: str = "") -> Any:
        """Refuse: a source that needs vectors overrides ``ports()``."""
        raise ConfigurationError("This test lends no model.", hint="Override ports().")

    def answer(self, request: Any, *, scope: Any, deadline: Deadline) -> Any:
        """Refuse: a source that asks stores of file search overrides ``ports()``."""
        raise ConfigurationError("This test lends no answers.", hint="Override ports().")

    def fetch(self, request: Any, *, deadline: Deadline) -> Any:
        """Refuse: a source that calls addresses overrides ``ports()``."""
        raise ConfigurationError("This test lends no network.", hint="Override ports().")


class Call(threading.Thread):
    """A call in a thread of its own, which a test can wait for no longer than it wants."""

    def __init__(self, work: Callable[[], SourceResult], *, leave: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work, self._leave = work, leave
        self.result = SourceResult()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Make the call; what it raises is kept, not lost."""
        with self:
            self.result = self._work()

    def outcome(self) -> str:
        """Return for people how the call ended."""
        return repr(self.error) if self.error else f"{len(self.result.hits)} hits"

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        self.error = error
        self._leave()
        return True
