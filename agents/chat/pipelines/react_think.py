"""Steps Think and Answer: the next tool calls, or an answer that is grounded.

A turn's calls are native, or written as JSON; the first words of an answer are passed on at once,
save those that may become a call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from agents.chat.pipelines.generate_answer import (
    AnswerStream,
    agent_messages,
    agent_request,
    is_answered_by_memory,
    number_documents,
    tell_doubt,
)
from agents.core.canned_texts import limit_text
from agents.core.cited_answers import serialize_sources
from agents.core.model_options import model_options
from agents.core.pipeline import PipelineRun, PipelineState
from agents.core.prompts import fill_prompt, language_of, prompt_file
from agents.core.react import CALLINGS
from agents.core.tool_calls import begins_call, example_call, parse_tool_calls, tag_start
from rag.core.analysis import Answerability
from rag.core.errors import ProviderError
from rag.core.ports import ChatRequest
from rag.core.tools import ToolSpec
from rag.core.types import Message, ToolUse
from rag.stages.query.references import find_references, missing_references


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
    answer_stream = _answer_stream(state, run)
    request = _request(state["agent_scratchpad"], state, run)
    try:
        async with asyncio.timeout(run.tools.deadline.remaining_s):
            turn = await run_turn(request, answer_stream, run)
    except TimeoutError:
        await answer_stream.retract()
        return {**begun, "limit": "time"}
    counted: PipelineState = {
        "n_iterations": state.get("n_iterations", 0) + 1,
        "spent_tokens": state.get("spent_tokens", 0) + turn.tokens,
    }
    if turn.calls is None:
        await tell_doubt(_left_doubt(state), state["query"], run)
        # A repair has what is left of the time; what was written stands without it.
        end = await answer_stream.conclude(
            request,
            state["query"],
            is_grounded=is_grounded(answer_stream, state, run),
            left_s=min(request.timeout_s, run.tools.deadline.remaining_s),
        )
        return {**begun, **counted, **_named_outcome(end, state, run)}
    if turn.calls:
        said = Message("assistant", turn.text, turn.calls if turn.is_native else ())
        begun["agent_scratchpad"] = [*state["agent_scratchpad"], said]
    return {**begun, **counted, "wanted": list(turn.calls)}


async def answer_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return an answer from what was found so far; one that a limit cut short says so."""
    query, limit = state["query"], state.get("limit") or ""
    answer_stream = _answer_stream(state, run)
    if limit:
        await run.emit("notice", {"step": "answer", "limit": limit})
        await answer_stream.say(limit_text(query, limit))
    if not has_grounds(state, run):
        return await answer_stream.give_up(query)
    await tell_doubt(_left_doubt(state), query, run)
    language = language_of(query)
    messages = _asked_again(
        state["agent_scratchpad"], prompt_file(f"react_answer_{language}").strip()
    )
    request = _request(messages, state, run)
    # A model that only wants to call more has nothing to say, in whatever form it says so.
    turn = await _heard(request, "text", answer_stream, run, may_be_empty=True)
    has_answer = turn.calls is None and bool(turn.text.strip())
    is_kept = has_answer and is_grounded(answer_stream, state, run)
    end = await answer_stream.conclude(request, query, is_grounded=is_kept)
    end = _named_outcome(end, state, run)
    return {**end, "outcome": "partial"} if limit and end["outcome"] == "answered" else end


def _request(messages: Sequence[Message], state: PipelineState, run: PipelineRun) -> ChatRequest:
    asked = state.get("rewritten_query") or state["query"]
    is_lookup = bool(state.get("is_lookup"))
    return agent_request(messages, asked, state["passages"], run, is_lookup=is_lookup)


def _answer_stream(state: PipelineState, run: PipelineRun) -> AnswerStream:
    """Return the stream of an answer from what was found and from what tools worked out."""
    sources = [*state["passages"], *(state.get("tool_passages") or [])]
    asked = state.get("rewritten_query") or state["query"]
    return AnswerStream(run, sources, question=asked, confidence=state.get("confidence"))


def _named_outcome(end: PipelineState, state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return the end of an answer that no document holds, by what else it rests on."""
    if end["outcome"] == "ungrounded" and is_answered_by_memory(state, run):
        return {**end, "outcome": "remembered", "grounding": {}}
    if not _looks_up(run) and not _has_worked_out(state):
        return {**end, "outcome": "uncited", "grounding": {}}
    return end


def _left_doubt(state: PipelineState) -> Answerability | None:
    """Return the doubt of the first search, as far as what tools found has not settled it."""
    judged = state.get("answerability")
    if judged is None or not state.get("tool_calls"):
        return judged
    hits = [passage.hit for passage in state.get("passages") or []]
    left = {one.text for one in missing_references(find_references(state["query"]), hits)}
    missing = tuple(one for one in judged.missing if one.text in left)
    return replace(judged, missing=missing) if missing else None


async def _opened(state: PipelineState, run: PipelineRun) -> PipelineState:
    hits = [*(state.get("page_hits") or []), *(state.get("reranked_results") or [])]
    passages, documents = number_documents((), hits, run, state["query"])
    if passages:
        await run.emit("sources", {"sources": serialize_sources(passages)})
    messages = agent_messages("react", state, documents, run)
    return {**state, "agent_scratchpad": messages, "passages": passages}


def _limit_met(state: PipelineState, run: PipelineRun) -> str:
    if state.get("limit"):
        return state["limit"]
    if not run.tools.deadline.remaining_s:
        return "time"
    if state.get("spent_tokens", 0) >= run.config.run_tokens:
        return "tokens"
    return "iterations" if state.get("n_iterations", 0) >= run.max_iterations else ""


def _asked_again(messages: Sequence[Message], text: str) -> list[Message]:
    # Some models take no two turns of one person after another.
    *before, last = messages
    if last.role == "user":
        return [*before, replace(last, content=f"{last.content}\n{text}")]
    return [*messages, Message("user", text)]


def calls_schema(kind: str, names: Sequence[str], **values: str) -> dict[str, Any]:
    """Return the JSON schema of an answer that calls some of ``names``, with further values."""
    types = {name: {"type": given} for name, given in values.items()}
    call = {
        "type": "object",
        "properties": {kind: {"type": "string", "enum": list(names)}, **types},
        "required": [kind, *values],
    }
    return {
        "type": "object",
        "properties": {"calls": {"type": "array", "items": call}},
        "required": ["calls"],
    }


def tools_prompt(specs: Sequence[ToolSpec]) -> str:
    """Return one line for each tool, with the schema of its arguments."""
    return "\n".join(
        f"- {spec.name}: {spec.description} {json.dumps(spec.parameters, ensure_ascii=False)}"
        for spec in specs
    )


# What a server answers with that does not take tools, or a form.
_REFUSED = (400, 404, 422, 501)
# Some say so by an error of their own, which another time may be one.
_PERHAPS = (500,)
# How Gemini ends where its model wrote a call that cannot be read.
_MALFORMED = frozenset({"malformed_function_call", "unexpected_tool_call"})


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """What a model said. ``calls`` None: it answered; empty: it is ready to answer."""

    text: str
    calls: tuple[ToolUse, ...] | None
    is_native: bool
    tokens: int


async def run_turn(
    request: ChatRequest, answer_stream: AnswerStream, run: PipelineRun
) -> ModelTurn:
    """Return the model's turn, its answer told by ``answer_stream``; raise ProviderError.

    A server that refuses one way of calling tools is asked in the next one, now and from now on.
    """
    ways, is_certain = CALLINGS[CALLINGS.index(run.tools.calling) :], True
    for way in ways:
        try:
            turn = await _heard(_offering(request, way, run), way, answer_stream, run)
        except ProviderError as error:
            is_last = way == ways[-1] or run.config.tool_calling == "native"
            status, reason = error.params.get("status"), error.params.get("reason")
            is_refusal = status in (*_REFUSED, *_PERHAPS) or reason in _MALFORMED
            if is_last or not is_refusal or answer_stream.writer.raw:
                raise
            is_certain = is_certain and status in _REFUSED
            continue
        if is_certain:
            run.tools.learn(way)
        return turn
    raise AssertionError("one way is always tried")


def _offering(request: ChatRequest, way: str, run: PipelineRun) -> ChatRequest:
    specs = run.tools.specs
    if not specs:
        return request
    if way == "native":
        return replace(request, tools=tuple(specs))
    first, *rest = request.messages
    rules = fill_prompt(prompt_file("react_tools"), {"example": example_call(specs[0])})
    told = f"{first.content}{rules}{tools_prompt(specs)}"
    schema = calls_schema("tool", [spec.name for spec in specs], arguments="object")
    form = model_options(run.model_id, None, schema) if way == "form" else {}
    return replace(request, messages=[Message("system", told), *rest], options=form)


async def _heard(
    request: ChatRequest,
    way: str,
    answer_stream: AnswerStream,
    run: PipelineRun,
    *,
    may_be_empty: bool = False,
) -> ModelTurn:
    held, n_tokens = "", list[int]()
    calls: tuple[ToolUse, ...] = ()
    is_open = False
    async with aclosing(run.stream(request)) as pieces:
        async for piece in pieces:
            held += piece.text
            calls += piece.tool_calls
            n_tokens += [n for n in (piece.input_tokens, piece.output_tokens) if n is not None]
            is_open = is_open or not begins_call(held)
            if is_open:
                shown = tag_start(held)
                await answer_stream.feed(held[:shown])
                held = held[shown:]
            if piece.notice:
                await run.emit("notice", {"step": "think", "text": piece.notice})
    text = answer_stream.writer.raw + held
    tokens = sum(n_tokens) or _estimate(request.messages, text, run)
    if calls:
        await answer_stream.retract()
        return ModelTurn(text, calls, True, tokens)
    names = {spec.name for spec in run.tools.specs}
    written = parse_tool_calls(text, names, is_lenient=way != "native") if names else None
    if written is not None:
        await answer_stream.retract()
        return ModelTurn(text, written, False, tokens)
    await answer_stream.feed(held)
    await answer_stream.finish(may_be_empty=may_be_empty)
    return ModelTurn(text, None, False, tokens)


def _estimate(messages: Sequence[Message], text: str, run: PipelineRun) -> int:
    """Return the tokens of a turn whose server does not say."""
    return run.count_tokens("\n".join([*(message.content for message in messages), text]))
