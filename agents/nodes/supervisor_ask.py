"""Step Ask of a supervisor. In: orders. Out: what the agents answered, or how they failed.

Several are asked side by side; one alone is passed on word by word, since nothing is merged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from agents.core.page_context import PageRead
from agents.core.pipeline import PipelineRun, PipelineState
from agents.core.side_by_side import side_by_side
from rag.core.errors import ProviderTimeoutError, RAGError

# Of the time that is left several agents have so much: one answer is made of theirs in the rest.
SHARE_OF_SEVERAL = 0.75
# Outcomes after which nobody else needs to be asked.
ANSWERED = frozenset({"answered", "partial", "remembered", "small_talk", "about_store"})
# What of one agent's events is told as the supervisor's own when nobody else is asked.
_PASSED_ON = frozenset({"delta", "citation", "replace", "sources"})
_TOLD = frozenset({"tool_call", "tool_result", "agent_call", "agent_result", "notice"})
_SUMMARY_CHARACTERS = 200


async def ask(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return all ``answers`` so far; where one agent alone answered, that is the final answer."""
    before, orders = list(state.get("answers") or []), state["orders"]
    is_alone = len(orders) == 1 and not any(one["outcome"] in ANSWERED for one in before)
    found = await side_by_side(
        _answer(order, f"{state['n_rounds']}.{number}", is_alone, state, run)
        for number, order in enumerate(orders, start=1)
    )
    update: PipelineState = {"answers": [*before, *found]}
    if is_alone and found[0]["outcome"] in ANSWERED:
        (one,) = found
        return {
            **update, "final_answer": one["text"], "citations": list(one["citations"]),
            "outcome": one["outcome"], "confidence": one["confidence"],
        }  # fmt: skip
    if is_alone and found[0]["has_told"]:
        # What was passed on was no answer: others are asked, or it is said in the end.
        await run.emit("replace", {"text": "", "citations": []})
    return update


def _page_of(state: PipelineState) -> PageRead:
    return PageRead(state.get("page_hits") or (), state.get("page_context") or "")


async def _answer(
    order: Mapping[str, str], id: str, is_alone: bool, state: PipelineState, run: PipelineRun
) -> dict[str, Any]:
    name, started = order["agent"], time.perf_counter()
    has_told = False
    error: RAGError | None = None

    async def pass_on(kind: str, data: Mapping[str, Any]) -> None:
        nonlocal has_told
        if is_alone and kind in _PASSED_ON:
            has_told = has_told or kind == "delta"
            await run.emit(kind, data)
        elif kind in _TOLD:
            await run.emit(kind, {**data, "by": data.get("by") or name})

    await run.emit("agent_call", {"id": id, "agent": name, "question": order["question"]})
    answer: dict[str, Any] = {"text": "", "citations": [], "sources": [], "confidence": None}
    outcome = "failed"
    share = SHARE_OF_SEVERAL if len(state["orders"]) > 1 else 1.0
    try:
        async with asyncio.timeout(share * run.tools.deadline.remaining_s):
            history, page = state.get("history") or [], _page_of(state)
            said = await run.team.ask(name, order["question"], history, page, pass_on)
        outcome = said.outcome
        answer = {
            "text": said.text, "citations": said.citations, "sources": said.sources,
            "confidence": said.confidence,
        }  # fmt: skip
    except TimeoutError:
        error = ProviderTimeoutError(
            "The agent “{name}” did not answer in time.", hint="Allow more by run_timeout_s.",
            name=name,
        )  # fmt: skip
    except RAGError as raised:
        error = raised
    told: dict[str, Any] = {
        "id": id, "agent": name, "outcome": outcome, "is_error": error is not None,
        "text": answer["text"][:_SUMMARY_CHARACTERS], "n_citations": len(answer["citations"]),
        "duration_ms": round((time.perf_counter() - started) * 1e3, 1),
    }  # fmt: skip
    await run.emit("agent_result", told | ({"error": error.as_dict()} if error else {}))
    return {**order, **answer, "outcome": outcome, "has_told": has_told, "error": error}
