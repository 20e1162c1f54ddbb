"""Step Generate. In: a question and hits. Out: an answer, told while it is written, and checked.

What is not sure is said to be unknown; what fails is an error and never an answer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agents.core.pipeline import PipelineRun, PipelineState
from agents.nodes.pipeline_prompt import answer_messages, small_talk_messages
from agents.nodes.pipeline_remembered import from_memory, is_remembered
from agents.nodes.pipeline_texts import hello_text, unavailable_text, unknown_text
from agents.nodes.pipeline_write import Teller, done, settle, write
from rag.core.hits import Hit
from rag.core.ports import ChatRequest
from rag.core.types import Message
from rag.stages.context import Context, Passage, build_context

# Of what is left of a step's time a second question to the model may take so much.
SHARE_OF_REST = 0.9


async def generate(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``final_answer``, ``citations`` and ``outcome``; raise ProviderError."""
    query, way = state["query"], state.get("route") or "retrieve"
    if way == "small_talk":
        if not run.can_write:
            return await said(hello_text(query), way, run)
        teller = Teller((), run, shows_marks=False)
        await write(request_of(small_talk_messages(state, run), query, (), run), teller, run)
        return done(teller.text, way)
    if way == "about_store":
        return await said(state.get("facts") or "", way, run)
    page, hits = state.get("page_hits") or [], state.get("reranked_results") or []
    if state.get("search_error") and not page:
        return await said(unavailable_text(query), "unavailable", run)
    is_unsure = (state.get("confidence") or 0.0) < run.config.min_confidence_score
    # What the page sent is what is asked about: beside it, doubtful hits only mislead.
    hits = [*page, *([] if is_unsure else hits)] if page else hits
    room = run.config.context_tokens + (run.config.page_tokens if page else 0)
    context = build_context(hits, room, run.count_tokens, context_type="xml", language_of=query)
    await run.emit("sources", {"sources": _sources(context, hits)})
    if (is_unsure and not page) or not context.passages:
        if is_remembered(state, run):
            return await from_memory(state, run)
        return await said(unknown_text(query, hits), "unknown", run)
    asked = state.get("rewritten_query") or query
    request = request_of(answer_messages(state, context, run), asked, context.passages, run)
    teller, started = Teller(context.passages, run), time.monotonic()
    await write(request, teller, run)
    # A repair has what is left of the step's time, which would take the answer with it.
    left_s = SHARE_OF_REST * (request.timeout_s - time.monotonic() + started)
    return await settle(replace(request, timeout_s=max(0.0, left_s)), teller, query, run)


def request_of(
    messages: Sequence[Message], question: str, passages: Sequence[Passage], run: PipelineRun
) -> ChatRequest:
    """Return what a model is asked for an answer from passages."""
    return ChatRequest(
        messages=list(messages), question=question,
        passages=[(passage.doc_id, passage.hit.text) for passage in passages],
        temperature=run.temperature, max_tokens=run.config.max_tokens,
        timeout_s=run.config.generate_timeout_s,
    )  # fmt: skip


async def said(text: str, outcome: str, run: PipelineRun) -> PipelineState:
    """Tell a text of our own as the answer."""
    await run.emit("delta", {"text": text})
    return done(text, outcome)


def _sources(context: Context, hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """Return what was looked at, those first that the model is shown, with the ids it cites."""
    shown = [(passage.doc_id, passage.hit) for passage in context.passages]
    rest = [("", hit) for hit in hits[len(shown) :]]
    return [{**hit.as_dict(), "doc_id": doc_id} for doc_id, hit in [*shown, *rest]]
