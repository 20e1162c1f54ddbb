"""What came of a call of a tool. In: its answer, or a fault of it. Out: hits, JSON, an error."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from agents.core.react import ToolResult
from rag.core.errors import ProviderError, RAGError
from rag.core.hits import Hit

log = logging.getLogger(__name__)


def cited_result(answer: Mapping[str, Any]) -> ToolResult:
    """Return a tool's answer with its ``results`` as hits, where these are passages with texts."""
    results = answer.get("results")
    is_cited = isinstance(results, list) and all(
        isinstance(one, Mapping) and isinstance(one.get("content"), str) for one in results
    )
    if not results or not is_cited:
        return ToolResult(answer)
    rest = {key: value for key, value in answer.items() if key != "results"}
    return ToolResult(rest, [Hit.from_dict(one) for one in results])


def fault_of_tool(name: str, fault: BaseException) -> RAGError:
    """Return how a tool's fault is told: a RAGError as it is, any other by its kind alone."""
    if isinstance(fault, RAGError):
        return fault
    log.error("the tool %s has a fault", name, exc_info=fault)
    return ProviderError(
        "The tool {name} has a fault ({kind}).", hint="The server's log says where.",
        name=name, kind=type(fault).__name__,
    )  # fmt: skip
