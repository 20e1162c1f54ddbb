"""Data sources: calls, the ports they are lent, and running several at once."""

from __future__ import annotations

from rag.services.sources.calls import SourceCall, SourceOutcome
from rag.services.sources.ports import HousePorts
from rag.services.sources.run import ask_source, run_sources

__all__ = [
    "HousePorts",
    "SourceCall",
    "SourceOutcome",
    "ask_source",
    "run_sources",
]
