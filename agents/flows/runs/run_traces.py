"""Traces of runs, bounded: texts, lists and the whole are cut, and say that they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_TEXT, MAX_ITEMS, MAX_TRACE = 100_000, 200, 200_000
# Of a whole run; whoever looks is told where nothing was kept any more.
MAX_RUN_TRACE = 1_000_000


def cut_trace(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON whose texts together have at most MAX_TRACE characters."""
    cutter = _Cutter()
    return {name: cutter.cut(one) for name, one in trace.items()}


class _Cutter:
    def __init__(self) -> None:
        self._left = MAX_TRACE

    def cut(self, value: Any) -> Any:
        if isinstance(value, str):
            limit = min(MAX_TEXT, max(0, self._left))
            self._left -= min(len(value), limit)
            n_cut = len(value) - limit
            return f"{value[:limit]}… ({n_cut} more characters)" if n_cut > 0 else value
        if isinstance(value, Mapping):
            kept = list(value.items())[:MAX_ITEMS]
            return {str(name): self.cut(one) for name, one in kept}
        if isinstance(value, (list, tuple)):
            return [self.cut(one) for one in value[:MAX_ITEMS]]
        self._left -= 8
        return value
