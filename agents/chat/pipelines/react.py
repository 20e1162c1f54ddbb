"""ReAct agent pipeline: as a rag agent up to its search, then a loop of Think and Act.

The calls of one turn run concurrently; what fails is told to the model, which can do better.

A simple question that the search answers surely takes the fast path: no loop, one answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agents.chat.pipelines.generate_answer import generate_step, number_documents
from agents.chat.pipelines.rag import (
    keep_search_order,
    opening_stages,
    rerank_step,
    search_failed,
    search_step,
    with_routing,
)
from agents.chat.pipelines.react_think import answer_step, think_step
from agents.core.cited_answers import serialize_sources
from agents.core.gather import gather_or_cancel
from agents.core.pipeline import END, Branch, Pipeline, PipelineRun, PipelineState, Step
from agents.core.react import ToolResult, call_key
from rag.core.errors import ConflictError, InvalidInputError, LimitError, RAGError
from rag.core.hits import TOOL, Hit
from rag.core.types import Message, ToolUse
from rag.stages.prompting.context import Passage, escape_data, quote_attribute

# Steps that end with the run's deadline by themselves, and then tell what they have: a limit of
# their own at the same moment would take that with it. It is for what does not heed the deadline.
BACKSTOP_TIMEOUT_S = 960.0


def react_pipeline() -> Pipeline:
    """Return the steps in order, each with its time and its rule for failures."""
    steps = Pipeline(
        stages=(
            *opening_stages(),
            (Step("look", first_search_step, "search_timeout_s", search_failed),),
            (Step("rerank", rerank_step, "rerank_timeout_s", keep_search_order),),
            (Step("decide", fast_path_step, 1.0),),
            (Step("think", think_step, BACKSTOP_TIMEOUT_S),),
            (Step("act", act_step, BACKSTOP_TIMEOUT_S),),
            (Step("answer", answer_step, "generate_timeout_s"),),
            (Step("generate", generate_step, "generate_timeout_s"),),
        )
    )
    return (
        with_routing(steps)
        .with_branch("decide", Branch(_fast_or_not, ("think", "generate")))
        .with_branch("think", Branch(_after_thinking, ("act", "answer", END)))
        .with_branch("act", Branch(_after_acting, ("think", "answer")))
        .with_branch("answer", Branch(lambda state: END, (END,)))
    )


async def first_search_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return what a first search finds, nothing for an agent that searches no stores."""
    return await search_step(state, run) if run.tools.searches_stores else {}


async def fast_path_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return as ``should_continue`` whether the loop is needed.

    It is not where the question is simple, the search sure and no tool could know better, or where
    the model only quotes.
    """
    is_sure = (state.get("confidence") or 0.0) >= run.config.fast_path_confidence
    is_easy = state.get("complexity") == "simple" and is_sure and not run.tools.knows_more
    is_fast = run.config.enable_fast_path and is_easy and bool(state.get("reranked_results"))
    return {"should_continue": run.can_write and not is_fast}


def _fast_or_not(state: PipelineState) -> str:
    return "think" if state.get("should_continue") else "generate"


def _after_thinking(state: PipelineState) -> str:
    if state.get("wanted"):
        return "act"
    return END if state.get("outcome") else "answer"


def _after_acting(state: PipelineState) -> str:
    return "answer" if state.get("limit") else "think"


MAX_RESULT_CHARACTERS = 20_000
_SUMMARY_CHARACTERS = 200


async def act_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return the results in ``agent_scratchpad`` and ``passages``, and the calls as they went.

    A call that was made before is not made again; a turn of nothing else ends the loop, and so
    does the last call that is allowed.
    """
    made, wanted = list(state.get("tool_calls") or []), state["wanted"]
    refusals = _refusals(made, wanted, run.config.max_tool_calls)
    results = await gather_or_cancel(
        _called(call, f"{state['n_iterations']}.{number}", refusal, run)
        for number, (call, refusal) in enumerate(zip(wanted, refusals, strict=True), start=1)
    )
    passages, told = list(state["passages"]), list[str]()
    tool_passages = list(state.get("tool_passages") or [])
    n_before = len(passages)
    for number, (call, result) in enumerate(zip(wanted, results, strict=True), start=1):
        known = len(passages)
        passages, documents = number_documents(passages, result.hits, run, state["query"])
        told.append(_text(call, result, documents))
        if is_worked_out(result):
            tool_passages.append(_tool_passage(call, result, len(tool_passages) + 1))
        names = [passage.doc_id for passage in passages[known:]]
        made.append(_record(call, result, f"{state['n_iterations']}.{number}", names))
        await run.emit("tool_result", made[-1])
    if len(passages) > n_before:
        await run.emit("sources", {"sources": serialize_sources(passages)})
    update: PipelineState = {
        "agent_scratchpad": [*state["agent_scratchpad"], *_turns(state, told)],
        "tool_calls": made,
        "passages": passages,
        "tool_passages": tool_passages,
        "wanted": [],
        "limit": _limit(made, refusals, run.config.max_tool_calls),
    }
    sure = [one for result in results if (one := result.answer.get("confidence")) is not None]
    if sure and all(isinstance(one, (int, float)) for one in sure):
        update["confidence"] = max(state.get("confidence") or 0.0, *sure)
    return update


def _refusals(
    made: Sequence[dict[str, Any]], wanted: Sequence[ToolUse], most: int
) -> list[RAGError | None]:
    """Return for each call why it is not made, None where it is."""
    seen = {call_key(one["tool"], one["arguments"]) for one in made if not one["is_error"]}
    n_made = sum(one["is_made"] for one in made)
    refusals: list[RAGError | None] = []
    for call in wanted:
        name = call_key(call.name, call.arguments)
        if call.fault:
            refusals.append(
                InvalidInputError(
                    "A call cannot be read: {reason}", hint="Send a JSON object.", reason=call.fault
                )
            )
        elif name in seen:
            refusals.append(
                ConflictError(
                    "This was called before with the same arguments.",
                    hint="The result is above: use it, or answer.",
                )
            )
        elif n_made >= most:
            refusals.append(LimitError("No more calls are allowed.", hint="Answer now."))
        else:
            refusals.append(None)
            seen.add(name)
            n_made += 1
    return refusals


async def _called(call: ToolUse, id: str, refusal: RAGError | None, run: PipelineRun) -> ToolResult:
    asked = {"id": id, "tool": call.name, "arguments": dict(call.arguments)}
    await run.emit("tool_call", asked)
    return ToolResult(error=refusal) if refusal else await run.tools.call(call.name, call.arguments)


def _text(call: ToolUse, result: ToolResult, documents: str) -> str:
    rest: dict[str, Any] = {"error": str(result.error)} if result.error else dict(result.answer)
    text = json.dumps(rest, ensure_ascii=False, default=str) if rest else ""
    if len(text) > MAX_RESULT_CHARACTERS:
        text = f"{text[:MAX_RESULT_CHARACTERS]}…"
    inside = "\n".join(filter(None, [documents, escape_data(text)])) or "{}"
    return f"<tool_result tool={quote_attribute(call.name[:64])}>\n{inside}\n</tool_result>"


def _turns(state: PipelineState, told: Sequence[str]) -> list[Message]:
    # Native calls are answered one by one, written ones in the person's place.
    if state["agent_scratchpad"][-1].tool_calls:
        pairs = zip(state["wanted"], told, strict=True)
        return [Message("tool", text, (call,)) for call, text in pairs]
    return [Message("user", "\n".join(told))]


def is_worked_out(result: ToolResult) -> bool:
    """Return whether a tool gave an answer of its own instead of documents."""
    finds = bool(result.hits) or "results" in result.answer
    return result.error is None and bool(result.answer) and not finds


def _tool_passage(call: ToolUse, result: ToolResult, number: int) -> Passage:
    text = json.dumps(dict(result.answer), ensure_ascii=False, default=str)
    hit = Hit(text=text[:MAX_RESULT_CHARACTERS], rank=number, source=TOOL, file_name=call.name)
    return Passage(f"tool_{number}", hit, hit.text)


def _record(call: ToolUse, result: ToolResult, id: str, documents: list[str]) -> dict[str, Any]:
    """Return what is told of a call; ``is_made`` False: it was refused.

    ``n_results`` is None for a tool that looks nothing up.
    """
    n_results = len(result.hits) if result.hits or "results" in result.answer else None
    text = json.dumps(dict(result.answer), ensure_ascii=False, default=str) if result.answer else ""
    record: dict[str, Any] = {
        "id": id,
        "tool": call.name,
        "arguments": dict(call.arguments),
        "n_results": n_results,
        "documents": documents,
        "files": list(dict.fromkeys(hit.file_name for hit in result.hits if hit.file_name))[:5],
        "text": text[:_SUMMARY_CHARACTERS],
        "duration_ms": round(result.duration_ms, 1),
        "is_error": result.error is not None,
        "is_made": not isinstance(result.error, (ConflictError, LimitError)) and not call.fault,
    }
    return record | ({"error": result.error.as_dict()} if result.error else {})


def _limit(made: Sequence[dict[str, Any]], refusals: Sequence[RAGError | None], most: int) -> str:
    if all(isinstance(one, ConflictError) for one in refusals):
        return "repeated"
    return "calls" if sum(one["is_made"] for one in made) >= most else ""
