"""Step Generate. In: a question and hits. Out: an answer, told while it is written, and checked.

What is not sure is said to be unknown; what fails is an error and never an answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from agents.core.pipeline import PipelineRun, PipelineState
from agents.nodes.pipeline_prompt import (
    answer_messages,
    language_of,
    repair_messages,
    small_talk_messages,
)
from agents.nodes.pipeline_texts import dropped_text, hello_text, unavailable_text, unknown_text
from rag.core.errors import ProviderError
from rag.core.hits import Hit
from rag.core.ports import ChatRequest
from rag.core.types import Citation, Message
from rag.services.checked_stream import CheckedStream, checked_text, failed
from rag.stages.context import Context, Passage, build_context


async def generate(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``final_answer``, ``citations`` and ``outcome``; raise ProviderError."""
    query, way = state["query"], state.get("route") or "retrieve"
    if way == "small_talk":
        if not run.can_write:
            return await _said(hello_text(query), way, run)
        request = _request(small_talk_messages(state, run), query, (), run)
        text, _, _ = await _written(request, CheckedStream((), shows_marks=False), run)
        return _done(text, way)
    if way == "about_store":
        return await _said(state.get("facts") or "", way, run)
    if state.get("search_error"):
        return await _said(unavailable_text(query), "unavailable", run)
    hits = state.get("reranked_results") or []
    context = build_context(
        hits, run.config.context_tokens, run.count_tokens, context_type="xml", language_of=query
    )
    await run.emit("sources", {"sources": _sources(context, hits)})
    is_unsure = (state.get("confidence") or 0.0) < run.config.min_confidence_score
    if is_unsure or not context.passages:
        return await _said(unknown_text(query, hits), "unknown", run)
    return await _from_sources(state, context, run)


async def _from_sources(state: PipelineState, context: Context, run: PipelineRun) -> PipelineState:
    config, query = run.config, state.get("rewritten_query") or state["query"]
    messages = answer_messages(state, context, run)
    request = _request(messages, query, context.passages, run)
    drops = config.citation_failure == "drop" and config.enable_source_citation
    checked = CheckedStream(
        context.passages, drops_failed=drops, shows_marks=config.enable_source_citation
    )
    text, citations, raw = await _written(request, checked, run)
    if checked.n_dropped:
        await run.emit("notice", {"step": "generate", "dropped_sentences": checked.n_dropped})
        if not text.strip():
            return await _said(dropped_text(state["query"]), "unknown", run)
    wrong = failed(citations)
    if wrong and config.citation_failure == "repair" and run.can_write:
        language = language_of(state["query"])
        again = repair_messages(messages, raw, wrong, language)
        text, citations = await _repaired(again, (text, citations), context, run)
    return _done(text, "answered", citations)


async def _written(
    request: ChatRequest, checked: CheckedStream, run: PipelineRun
) -> tuple[str, list[Citation], str]:
    """Tell an answer while it comes; return it as shown, its citations, and as it was written."""
    shown, raw = list[str](), list[str]()
    citations: list[Citation] = []

    async def tell(parts: Sequence[str | Citation]) -> None:
        for part in parts:
            if isinstance(part, str):
                shown.append(part)
                await run.emit("delta", {"text": part})
            else:
                citations.append(part)
                await run.emit("citation", asdict(part))

    pieces: Any = run.stream(request)
    async with aclosing(pieces):
        async for piece in _typed(pieces):
            raw.append(piece.text)
            await tell(checked.feed(piece.text))
            if piece.notice:
                await run.emit("notice", {"step": "generate", "text": piece.notice})
    await tell(checked.finish())
    if not "".join(raw).strip():
        raise ProviderError("The model {model} answered with nothing.", model=run.model_id)
    return "".join(shown), citations, "".join(raw)


async def _typed(pieces: Any) -> AsyncIterator[Any]:
    async for piece in pieces:
        yield piece


async def _repaired(
    messages: Sequence[Message], before: tuple[str, list[Citation]], context: Context,
    run: PipelineRun,
) -> tuple[str, list[Citation]]:  # fmt: skip
    """Return the answer written once more, if more of its quotes hold; else the one before."""
    request = _request(messages, "", context.passages, run)
    try:
        reply = await run.ask(request)
    except ProviderError as error:
        await run.emit("notice", {"step": "repair", "error": error.as_dict()})
        return before
    text, citations = checked_text(reply.text, context.passages)
    is_better = len(failed(citations)) < len(failed(before[1])) and citations and text.strip()
    if not is_better:
        await run.emit("notice", {"step": "repair", "kept": "original"})
        return before
    told = [asdict(citation) for citation in citations]
    await run.emit("replace", {"text": text, "citations": told})
    return text, list(citations)


def _request(
    messages: Sequence[Message], question: str, passages: Sequence[Passage], run: PipelineRun
) -> ChatRequest:
    return ChatRequest(
        messages=list(messages), question=question,
        passages=[(passage.doc_id, passage.hit.text) for passage in passages],
        temperature=run.temperature, max_tokens=run.config.max_tokens,
        timeout_s=run.config.generate_timeout_s,
    )  # fmt: skip


async def _said(text: str, outcome: str, run: PipelineRun) -> PipelineState:
    await run.emit("delta", {"text": text})
    return _done(text, outcome)


def _done(text: str, outcome: str, citations: Sequence[Citation] = ()) -> PipelineState:
    told = [asdict(citation) for citation in citations]
    return {"final_answer": text, "outcome": outcome, "citations": told}


def _sources(context: Context, hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """Return what was looked at, those first that the model is shown, with the ids it cites."""
    shown = [(passage.doc_id, passage.hit) for passage in context.passages]
    rest = [("", hit) for hit in hits[len(shown) :]]
    return [{**hit.as_dict(), "doc_id": doc_id} for doc_id, hit in [*shown, *rest]]
