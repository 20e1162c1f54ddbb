"""What came of a call of a tool. In: its answer, or a future of it. Out: hits, JSON, an error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from agents.core.react import ToolResult
from rag.core.deadline import Deadline
from rag.core.errors import ProviderError, ProviderTimeoutError, RAGError
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


def waited_result(name: str, waiting: asyncio.Future[ToolResult], deadline: Deadline) -> ToolResult:
    """Return what was waited for; raise RAGError, also for a fault of the tool itself."""
    if not waiting.done():
        raise ProviderTimeoutError(
            "The tool {name} did not answer within {timeout_s} s.",
            hint="Try again, or allow more time.",
            name=name, timeout_s=f"{deadline.timeout_s:g}",
        )  # fmt: skip
    fault = waiting.exception()
    if fault is None:
        return waiting.result()
    if isinstance(fault, RAGError):
        raise fault
    log.error("the tool %s has a fault", name, exc_info=fault)
    raise ProviderError(
        "The tool {name} has a fault ({kind}).", hint="The server's log says where.",
        name=name, kind=type(fault).__name__,
    )  # fmt: skip
