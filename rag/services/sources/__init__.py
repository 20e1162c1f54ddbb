"""Data sources: calls, the ports they are lent, and running several at once."""

from __future__ import annotations

from rag.services.sources.ports import SourceContext
from rag.services.sources.run import SourceCall, SourceOutcome, ask_source, run_sources
