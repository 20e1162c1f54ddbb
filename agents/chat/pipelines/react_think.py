"""Steps Think and Answer: the next tool calls, or an answer that is grounded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from agents.chat.pipelines.canned_texts import limit_text, unknown_text
from agents.chat.pipelines.generate_answer import (
    AnswerStream,
    agent_request,
    apply_citation_policy,
    final_state,
    is_answered_by_memory,
    stream_answer,
)
from agents.chat.pipelines.prompt import escape_data, history_messages, language_of, question_text
from agents.chat.pipelines.react_documents import number_documents, serialize_sources
from agents.chat.pipelines.react_turn import ModelTurn, run_turn
from agents.core.pipeline import PipelineRun, PipelineState
from agents.core.prompts import fill_prompt, prompt_file
from rag.core.types import Message
from rag.stages.prompting.context import Passage


def has_grounds(state: PipelineState, run: PipelineRun) -> bool:
    """Return whether there is anything to answer from: documents, memories, a tool's result."""
    is_known = bool(state.get("passages")) or is_answered_by_memory(state, run)
    return is_known or _has_worked_out(state) or not _looks_up(run)


def is_grounded(answer_stream: AnswerStream, state: PipelineState, run: PipelineRun) -> bool:
    """Return whether an answer may stand.

    It does by a quote that holds, by what a tool worked out, by memories where the question is
    about who asks, or by documents of which the search is sure enough; an agent that looks nothing
    up, or cites nothing, answers as it likes.
    """
    if not _looks_up(run) or not run.config.enable_source_citation or _has_worked_out(state):
        return True
    if is_answered_by_memory(state, run):
        return True
    if answer_stream.writer.is_verified:
        return True
    is_sure = (state.get("confidence") or 0.0) >= run.config.min_confidence_score
    return is_sure and bool(state.get("passages"))


def _has_worked_out(state: PipelineState) -> bool:
    made = state.get("tool_calls") or []
    return any(not call["is_error"] and call["n_results"] is None for call in made)


def _looks_up(run: PipelineRun) -> bool:
    return run.tools.searches_stores or bool(run.config.sources)


async def think_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return the calls that the model wants (``wanted``), or the answer that it gave.

    A limit that is met ends the loop: ``limit`` names it, and ``answer_step`` follows.
    """
    state = state if state.get("agent_scratchpad") else await _opened(state, run)
    begun: PipelineState = {
        "agent_scratchpad": state["agent_scratchpad"],
        "passages": state["passages"],
        "wanted": [],
    }
    if limit := _limit_met(state, run):
        return {**begun, "limit": limit}
    answer_stream = AnswerStream(state["passages"], run)
    asked = state.get("rewritten_query") or state["query"]
    request = agent_request(state["agent_scratchpad"], asked, state["passages"], run)
    try:
        async with asyncio.timeout(run.tools.deadline.remaining_s):
            turn = await run_turn(request, answer_stream, run)
    except TimeoutError:
        await answer_stream.retract()
        return {**begun, "limit": "time"}
    counted: PipelineState = {
        "n_rounds": state.get("n_rounds", 0) + 1,
        "spent_tokens": state.get("spent_tokens", 0) + turn.tokens,
    }
    if turn.calls is None and not is_grounded(answer_stream, state, run):
        await answer_stream.retract()
        return {**begun, **counted, **await _unknown(answer_stream, state)}
    if turn.calls is None:
        # A repair has what is left of the time; what was written stands without it.
        left_s = min(request.timeout_s, run.tools.deadline.remaining_s)
        end = await apply_citation_policy(
            request, answer_stream, state["query"], run, left_s=left_s
        )
        return {**begun, **counted, **end}
    if turn.calls:
        begun["agent_scratchpad"] = [*state["agent_scratchpad"], _turn(turn)]
    return {**begun, **counted, "wanted": list(turn.calls)}


async def answer_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return an answer from what was found so far; one that a limit cut short says so."""
    query, limit, passages = state["query"], state.get("limit") or "", state["passages"]
    answer_stream = AnswerStream(passages, run)
    if limit:
        await run.emit("notice", {"step": "answer", "limit": limit})
        await answer_stream.emit_own(limit_text(query, limit))
    if not has_grounds(state, run):
        return await _unknown(answer_stream, state)
    language = language_of(query)
    messages = _asked_again(
        state["agent_scratchpad"], prompt_file(f"react_answer_{language}").strip()
    )
    request = agent_request(messages, state.get("rewritten_query") or query, passages, run)
    # A model that only wants to call more has nothing to say.
    await stream_answer(request, answer_stream, run, may_be_empty=True)
    if not answer_stream.writer.raw.strip() or not is_grounded(answer_stream, state, run):
        await answer_stream.retract()
        return await _unknown(answer_stream, state)
    end = await apply_citation_policy(request, answer_stream, query, run)
    return {**end, "outcome": "partial"} if limit and end["outcome"] == "answered" else end


async def _unknown(answer_stream: AnswerStream, state: PipelineState) -> PipelineState:
    """Say that it is not known, and what was looked at."""
    looked_at = [passage.hit for passage in state.get("passages") or []]
    await answer_stream.emit_own(unknown_text(state["query"], looked_at))
    return final_state(answer_stream.writer.result("unknown"))


async def _opened(state: PipelineState, run: PipelineRun) -> PipelineState:
    language = language_of(state["query"])
    rules = "cite" if run.config.enable_source_citation else "no_cite"
    system = fill_prompt(
        prompt_file(f"react_{language}"),
        {
            "persona": escape_data(run.prompt.strip()),
            "citation_rules": prompt_file(f"{rules}_{language}").strip(),
        },
    )
    no_passages: list[Passage] = []
    hits = [*(state.get("page_hits") or []), *(state.get("reranked_results") or [])]
    passages, documents = number_documents(no_passages, hits, run, state["query"])
    if passages:
        await run.emit("sources", {"sources": serialize_sources(passages)})
    asked = Message("user", question_text(state, documents))
    messages = [Message("system", system), *history_messages(state, run), asked]
    return {**state, "agent_scratchpad": messages, "passages": passages}


def _limit_met(state: PipelineState, run: PipelineRun) -> str:
    if state.get("limit"):
        return state["limit"]
    if not run.tools.deadline.remaining_s:
        return "time"
    if state.get("spent_tokens", 0) >= run.config.run_tokens:
        return "tokens"
    return "iterations" if state.get("n_rounds", 0) >= run.max_iterations else ""


def _turn(turn: ModelTurn) -> Message:
    calls = turn.calls if turn.is_native and turn.calls else ()
    return Message("assistant", turn.text, calls)


def _asked_again(messages: Sequence[Message], text: str) -> list[Message]:
    # Some models take no two turns of one person after another.
    *before, last = messages
    if last.role == "user":
        return [*before, replace(last, content=f"{last.content}\n{text}")]
    return [*messages, Message("user", text)]
