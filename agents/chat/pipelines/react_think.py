"""Steps Think and Answer. In: what is known. Out: the next calls of tools, or the answer.

Whether an answer rests on anything. In: a state, what the model wrote. Out: yes or no.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from agents.chat.pipelines.generate import (
    SHARE_OF_REST,
    Teller,
    done,
    is_remembered,
    request_of,
    settle,
    write,
)
from agents.chat.pipelines.prompt import data, language_of, question_text, turns_before
from agents.chat.pipelines.react_documents import shelve, sources_of
from agents.chat.pipelines.react_round import Round, ask_round
from agents.chat.pipelines.texts import limit_text, unknown_text
from agents.core.pipeline import PipelineRun, PipelineState
from agents.core.prompts import fill_prompt, prompt_file
from rag.core.types import Message
from rag.services.answers.cited_answer import HOLDS
from rag.stages.prompting.context import Passage


def has_grounds(state: PipelineState, run: PipelineRun) -> bool:
    """Return whether there is anything to answer from: documents, memories, a tool's result."""
    is_known = bool(state.get("passages")) or is_remembered(state, run)
    return is_known or _has_worked_out(state) or not _looks_up(run)


def rests_on_something(teller: Teller, state: PipelineState, run: PipelineRun) -> bool:
    """Return whether an answer may stand.

    It does by a quote that holds, by what a tool worked out, by memories where the question is
    about who asks, or by documents of which the search is sure enough; an agent that looks nothing
    up, or cites nothing, answers as it likes.
    """
    if not _looks_up(run) or not run.config.enable_source_citation or _has_worked_out(state):
        return True
    if is_remembered(state, run):
        return True
    if any(citation.verdict in HOLDS for citation in teller.citations):
        return True
    is_sure = (state.get("confidence") or 0.0) >= run.config.min_confidence_score
    return is_sure and bool(state.get("passages"))


def _has_worked_out(state: PipelineState) -> bool:
    made = state.get("tool_calls") or []
    return any(not call["is_error"] and call["n_results"] is None for call in made)


def _looks_up(run: PipelineRun) -> bool:
    return run.tools.searches_stores or bool(run.config.sources)


async def think(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return the calls that the model wants (``wanted``), or the answer that it gave.

    A limit that is met ends the loop: ``limit`` names it, and ``answer`` follows.
    """
    state = state if state.get("agent_scratchpad") else await _opened(state, run)
    begun: PipelineState = {
        "agent_scratchpad": state["agent_scratchpad"],
        "passages": state["passages"],
        "wanted": [],
    }
    if limit := _limit_met(state, run):
        return {**begun, "limit": limit}
    teller = Teller(state["passages"], run)
    asked = state.get("rewritten_query") or state["query"]
    request = request_of(state["agent_scratchpad"], asked, state["passages"], run)
    try:
        async with asyncio.timeout(run.tools.deadline.remaining_s):
            said = await ask_round(request, teller, run)
    except TimeoutError:
        await teller.take_back()
        return {**begun, "limit": "time"}
    counted: PipelineState = {
        "n_rounds": state.get("n_rounds", 0) + 1,
        "spent_tokens": state.get("spent_tokens", 0) + said.tokens,
    }
    if said.calls is None and not rests_on_something(teller, state, run):
        await teller.take_back()
        return {**begun, **counted, **await _unknown(teller, state)}
    if said.calls is None:
        # A repair has what is left of the time; what was written stands without it.
        left_s = min(request.timeout_s, run.tools.deadline.remaining_s)
        asked_again = replace(request, timeout_s=left_s)
        return {**begun, **counted, **await settle(asked_again, teller, state["query"], run)}
    if said.calls:
        begun["agent_scratchpad"] = [*state["agent_scratchpad"], _turn(said)]
    return {**begun, **counted, "wanted": list(said.calls)}


async def answer(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return an answer from what was found so far; one that a limit cut short says so."""
    query, limit, passages = state["query"], state.get("limit") or "", state["passages"]
    teller = Teller(passages, run)
    if limit:
        await run.emit("notice", {"step": "answer", "limit": limit})
        await teller.say(limit_text(query, limit))
    if not has_grounds(state, run):
        return await _unknown(teller, state)
    language = language_of(query)
    messages = _asked_again(
        state["agent_scratchpad"], prompt_file(f"react_answer_{language}").strip()
    )
    request = request_of(messages, state.get("rewritten_query") or query, passages, run)
    started = time.monotonic()
    # A model that only wants to call more has nothing to say.
    await write(request, teller, run, may_be_empty=True)
    if not teller.raw.strip() or not rests_on_something(teller, state, run):
        await teller.take_back()
        return await _unknown(teller, state)
    # A repair has what is left of the step's time, which would take the answer with it.
    left_s = SHARE_OF_REST * (request.timeout_s - time.monotonic() + started)
    end = await settle(replace(request, timeout_s=max(0.0, left_s)), teller, query, run)
    return {**end, "outcome": "partial"} if limit and end["outcome"] == "answered" else end


async def _unknown(teller: Teller, state: PipelineState) -> PipelineState:
    """Say that it is not known, and what was looked at."""
    looked_at = [passage.hit for passage in state.get("passages") or []]
    await teller.say(unknown_text(state["query"], looked_at))
    return done(teller.text, "unknown")


async def _opened(state: PipelineState, run: PipelineRun) -> PipelineState:
    language = language_of(state["query"])
    rules = "cite" if run.config.enable_source_citation else "no_cite"
    system = fill_prompt(
        prompt_file(f"react_{language}"),
        {
            "persona": data(run.prompt.strip()),
            "citation_rules": prompt_file(f"{rules}_{language}").strip(),
        },
    )
    no_passages: list[Passage] = []
    hits = [*(state.get("page_hits") or []), *(state.get("reranked_results") or [])]
    passages, documents = shelve(no_passages, hits, run, state["query"])
    if passages:
        await run.emit("sources", {"sources": sources_of(passages)})
    asked = Message("user", question_text(state, documents))
    messages = [Message("system", system), *turns_before(state, run), asked]
    return {**state, "agent_scratchpad": messages, "passages": passages}


def _limit_met(state: PipelineState, run: PipelineRun) -> str:
    if state.get("limit"):
        return state["limit"]
    if not run.tools.deadline.remaining_s:
        return "time"
    if state.get("spent_tokens", 0) >= run.config.run_tokens:
        return "tokens"
    return "iterations" if state.get("n_rounds", 0) >= run.max_iterations else ""


def _turn(said: Round) -> Message:
    calls = said.calls if said.is_native and said.calls else ()
    return Message("assistant", said.text, calls)


def _asked_again(messages: Sequence[Message], text: str) -> list[Message]:
    # Some models take no two turns of one person after another.
    *before, last = messages
    if last.role == "user":
        return [*before, replace(last, content=f"{last.content}\n{text}")]
    return [*messages, Message("user", text)]
