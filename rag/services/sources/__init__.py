"""To be written."""

from __future__ import annotations

from rag.services.sources.calls import SourceCall, SourceOutcome
from rag.services.sources.ports import HousePorts
from rag.services.sources.run import ask_source, run_sources
from rag.services.sources.threads import run_apart

__all__ = [
    "HousePorts",
    "SourceCall",
    "SourceOutcome",
    "ask_source",
    "run_apart",
    "run_sources",
]
