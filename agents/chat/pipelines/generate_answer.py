"""Step Generate: the answer of an agent, streamed with its citations, by the citation policy.

What is not sure is said to be unknown; what fails is an error and never an answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any

from agents.chat.pipelines.canned_texts import (
    dropped_text,
    greeting_text,
    unavailable_text,
    unknown_text,
)
from agents.chat.pipelines.prompt import (
    answer_messages,
    escape_data,
    history_messages,
    language_of,
    question_text,
    repair_messages,
    small_talk_messages,
)
from agents.core.pipeline import PipelineRun, PipelineState
from agents.core.prompts import fill_prompt, prompt_file
from rag.core.errors import ProviderError
from rag.core.hits import Hit
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply, Citation, Message
from rag.services.answers import CheckedStream, checked_text, failed_citations
from rag.stages.prompting.context import Context, Passage, build_context


class AnswerStream:
    """Passes an answer on as it comes: its text as shown, and its citations as they are checked."""

    def __init__(
        self, passages: Sequence[Passage], run: PipelineRun, *, shows_marks: bool | None = None
    ) -> None:
        config = run.config
        shows = config.enable_source_citation if shows_marks is None else shows_marks
        self.passages, self._run = passages, run
        self._checked = CheckedStream(
            passages, drops_failed=shows and config.citation_failure == "drop", shows_marks=shows
        )
        self._shown: list[str] = []
        self.own, self.raw, self.citations = "", "", list[Citation]()

    @property
    def text(self) -> str:
        """Return what has been shown so far."""
        return "".join(self._shown)

    @property
    def n_dropped(self) -> int:
        """Return how many sentences were left out."""
        return self._checked.n_dropped

    async def emit_own(self, text: str) -> None:
        """Show words of our own, before the model's."""
        self.own += text
        self._shown.append(text)
        await self._run.emit("delta", {"text": text})

    async def feed(self, text: str) -> None:
        """Take a piece of what the model writes."""
        self.raw += text
        await self._tell(self._checked.feed(text))

    async def finish(self, *, may_be_empty: bool = False) -> None:
        """Show what is left; raise ProviderError for an answer of nothing."""
        await self._tell(self._checked.finish())
        if not self.raw.strip() and not may_be_empty:
            raise ProviderError(
                "The model {model} answered with nothing.", model=self._run.model_id
            )

    async def retract(self) -> None:
        """Take back what was shown: it was no answer."""
        if self._shown:
            await self._run.emit("replace", {"text": "", "citations": []})
        self._shown, self.citations = [], []

    async def _tell(self, parts: Sequence[str | Citation]) -> None:
        for part in parts:
            if isinstance(part, str):
                self._shown.append(part)
                await self._run.emit("delta", {"text": part})
            else:
                self.citations.append(part)
                await self._run.emit("citation", asdict(part))


async def stream_answer(
    request: ChatRequest,
    answer_stream: AnswerStream,
    run: PipelineRun,
    *,
    may_be_empty: bool = False,
) -> None:
    """Let the model write a whole answer; raise ProviderError."""
    pieces: Any = run.stream(request)
    async with aclosing(pieces):
        async for piece in _typed(pieces):
            await answer_stream.feed(piece.text)
            if piece.notice:
                await run.emit("notice", {"step": "generate", "text": piece.notice})
    await answer_stream.finish(may_be_empty=may_be_empty)


async def apply_citation_policy(
    asked: ChatRequest, answer_stream: AnswerStream, query: str, run: PipelineRun
) -> PipelineState:
    """Return the state of an answer that was written, by the rule for quotes that do not hold."""
    if answer_stream.n_dropped:
        await run.emit("notice", {"step": "generate", "dropped_sentences": answer_stream.n_dropped})
        if not answer_stream.text.removeprefix(answer_stream.own).strip():
            await answer_stream.emit_own(dropped_text(query))
            return final_state(answer_stream.text, "unknown")
    wrong = failed_citations(answer_stream.citations)
    if wrong and run.config.citation_failure == "repair" and run.can_write:
        again = repair_messages(asked.messages, answer_stream.raw, wrong, language_of(query))
        return await _repaired(again, asked, answer_stream, run)
    return final_state(answer_stream.text, "answered", answer_stream.citations)


async def _typed(pieces: Any) -> AsyncIterator[ChatReply]:
    """Yield the pieces of a stream that was opened with ``aclosing``."""
    async for piece in pieces:
        yield piece


def final_state(text: str, outcome: str, citations: Sequence[Citation] = ()) -> PipelineState:
    """Return the state of an answer as it was told."""
    told = [asdict(citation) for citation in citations]
    return {"final_answer": text, "outcome": outcome, "citations": told}


async def _repaired(
    messages: Sequence[Message], asked: ChatRequest, answer_stream: AnswerStream, run: PipelineRun
) -> PipelineState:
    """Return the answer written once more, if more of its quotes hold; else the one before."""
    request = ChatRequest(
        list(messages),
        passages=asked.passages,
        temperature=asked.temperature,
        max_tokens=asked.max_tokens,
        timeout_s=asked.timeout_s,
    )
    before = final_state(answer_stream.text, "answered", answer_stream.citations)
    try:
        reply = await run.ask(request)
    except ProviderError as error:
        await run.emit("notice", {"step": "repair", "error": error.as_dict()})
        return before
    text, citations = checked_text(reply.text, answer_stream.passages)
    is_better = (
        len(failed_citations(citations)) < len(failed_citations(answer_stream.citations))
        and citations
    )
    if not is_better or not text.strip():
        await run.emit("notice", {"step": "repair", "kept": "original"})
        return before
    after = final_state(answer_stream.own + text, "answered", citations)
    await run.emit("replace", {"text": after["final_answer"], "citations": after["citations"]})
    return after


_OF_ONESELF = re.compile(r"我|咱|上次|以前问|\b(?:i|my|mine|me|we|our|ours|us|last time)\b", re.I)


def is_answered_by_memory(state: PipelineState, run: PipelineRun) -> bool:
    """Return whether a question is about who asks, and there are memories and a model to tell."""
    has_memories = bool(state.get("memories")) and run.can_write
    return has_memories and bool(_OF_ONESELF.search(state["query"]))


async def _answer_from_memory(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return an answer without citations, whose outcome says where it is from."""
    prompt = prompt_file(f"remembered_{language_of(state['query'])}")
    system = fill_prompt(prompt, {"persona": escape_data(run.prompt.strip())})
    messages = [
        Message("system", system),
        *history_messages(state, run),
        Message("user", question_text(state, "")),
    ]
    answer_stream = AnswerStream((), run, shows_marks=False)
    request = ChatRequest(
        messages,
        question=state["query"],
        temperature=run.temperature,
        max_tokens=run.config.max_tokens,
        timeout_s=run.config.generate_timeout_s,
    )
    await stream_answer(request, answer_stream, run)
    return final_state(answer_stream.text, "remembered")


# Of what is left of a step's time a second question to the model may take so much.
REPAIR_TIME_SHARE = 0.9


async def generate_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``final_answer``, ``citations`` and ``outcome``; raise ProviderError."""
    query, way = state["query"], state.get("route") or "retrieve"
    if way == "small_talk":
        if not run.can_write:
            return await emit_answer(greeting_text(query), way, run)
        answer_stream = AnswerStream((), run, shows_marks=False)
        await stream_answer(
            answer_request(small_talk_messages(state, run), query, (), run), answer_stream, run
        )
        return final_state(answer_stream.text, way)
    if way == "about_store":
        return await emit_answer(state.get("facts") or "", way, run)
    page, hits = state.get("page_hits") or [], state.get("reranked_results") or []
    if state.get("search_error") and not page:
        return await emit_answer(unavailable_text(query), "unavailable", run)
    is_unsure = (state.get("confidence") or 0.0) < run.config.min_confidence_score
    # What the page sent is what is asked about: beside it, doubtful hits only mislead.
    hits = [*page, *([] if is_unsure else hits)] if page else hits
    room = run.config.context_tokens + (run.config.page_tokens if page else 0)
    context = build_context(hits, room, run.count_tokens, context_type="xml", language_of=query)
    await run.emit("sources", {"sources": _sources(context, hits)})
    if (is_unsure and not page) or not context.passages:
        if is_answered_by_memory(state, run):
            return await _answer_from_memory(state, run)
        return await emit_answer(unknown_text(query, hits), "unknown", run)
    asked = state.get("rewritten_query") or query
    request = answer_request(answer_messages(state, context, run), asked, context.passages, run)
    answer_stream, started = AnswerStream(context.passages, run), time.monotonic()
    await stream_answer(request, answer_stream, run)
    # A repair has what is left of the step's time, which would take the answer with it.
    left_s = REPAIR_TIME_SHARE * (request.timeout_s - time.monotonic() + started)
    return await apply_citation_policy(
        replace(request, timeout_s=max(0.0, left_s)), answer_stream, query, run
    )


def answer_request(
    messages: Sequence[Message], question: str, passages: Sequence[Passage], run: PipelineRun
) -> ChatRequest:
    """Return what a model is asked for an answer from passages."""
    return ChatRequest(
        messages=list(messages),
        question=question,
        passages=[(passage.doc_id, passage.hit.text) for passage in passages],
        temperature=run.temperature,
        max_tokens=run.config.max_tokens,
        timeout_s=run.config.generate_timeout_s,
    )


async def emit_answer(text: str, outcome: str, run: PipelineRun) -> PipelineState:
    """Tell a text of our own as the answer."""
    await run.emit("delta", {"text": text})
    return final_state(text, outcome)


def _sources(context: Context, hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """Return what was looked at, those first that the model is shown, with the ids it cites."""
    shown = [(passage.doc_id, passage.hit) for passage in context.passages]
    rest = [("", hit) for hit in hits[len(shown) :]]
    return [{**hit.as_dict(), "doc_id": doc_id} for doc_id, hit in [*shown, *rest]]
