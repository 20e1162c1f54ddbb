"""One data source, asked until it answers. In: a call and its question. Out: what became of it."""

from __future__ import annotations

import time

from rag.core.errors import ProviderError, RAGError
from rag.core.options import read_options
from rag.core.plugins import PLUGINS
from rag.core.sources import SourceQuery, SourceResult
from rag.services.source_calls import SourceCall, SourceOutcome

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
            name=call.name, plugin=call.plugin, status="ok" if result.hits else "empty",
            hits=result.hits, notes=result.notes, attempts=attempts,
            duration_ms=(time.perf_counter() - started) * 1e3,
        )  # fmt: skip
