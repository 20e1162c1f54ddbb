"""Token counter: sums the tokens that a provider reports during one call, from any thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class TokenCounter:
    """Adds up tokens; None until somebody has told some."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.tokens: int | None = None

    def add(self, n: object) -> None:
        """Add what a service told; what is no count is left out."""
        if isinstance(n, int) and not isinstance(n, bool) and n >= 0:
            with self._lock:
                self.tokens = (self.tokens or 0) + n


_TALLY: ContextVar[TokenCounter | None] = ContextVar("citable_tally", default=None)


def current_token_counter() -> TokenCounter:
    """Return the tally of the call at hand; one that nobody reads where there is none."""
    return _TALLY.get() or TokenCounter()


@contextmanager
def counting_tokens() -> Iterator[TokenCounter]:
    """Collect the tokens that are told inside."""
    tally = TokenCounter()
    token = _TALLY.set(tally)
    try:
        yield tally
    finally:
        _TALLY.reset(token)
