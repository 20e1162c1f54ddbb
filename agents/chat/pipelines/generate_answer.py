"""Step Generate: the answer of an agent, streamed with its citations, by the citation policy.

What is not sure is said to be unknown; what fails is an error and never an answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
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
from rag.core.types import Citation, Message
from rag.services.answers import AnswerWriter, VerifiedAnswer, answer_request
from rag.stages.prompting.context import Context, Passage, build_context

# Of what is left of a step's time a second question to the model may take so much.
REPAIR_TIME_SHARE = 0.9


class AnswerStream:
    """An answer of the answer pipeline, told as it comes: its text and its checked citations."""

    def __init__(
        self, passages: Sequence[Passage], run: PipelineRun, *, shows_marks: bool | None = None
    ) -> None:
        config = run.config
        shows = config.enable_source_citation if shows_marks is None else shows_marks
        drops = config.citation_failure == "drop"
        self.writer = AnswerWriter(
            passages, marks="numbered" if shows else "hidden", drops_failed=drops
        )
        self.started = time.monotonic()
        self._run = run

    async def emit_own(self, text: str) -> None:
        """Show words of our own."""
        await self._run.emit("delta", {"text": self.writer.say(text)})

    async def feed(self, text: str) -> None:
        """Take a piece of what the model writes."""
        await self._emit(self.writer.feed(text))

    async def finish(self, *, may_be_empty: bool = False) -> None:
        """Show what is left; raise ProviderError for an answer of nothing."""
        await self._emit(self.writer.finish())
        if not self.writer.raw.strip() and not may_be_empty:
            raise ProviderError(
                "The model {model} answered with nothing.", model=self._run.model_id
            )

    async def retract(self) -> None:
        """Take back what was shown: it was no answer."""
        if self.writer.retract():
            await self._run.emit("replace", {"text": "", "citations": []})

    async def _emit(self, parts: Sequence[str | Citation]) -> None:
        for part in parts:
            if isinstance(part, str):
                await self._run.emit("delta", {"text": part})
            else:
                await self._run.emit("citation", asdict(part))


async def stream_answer(
    request: ChatRequest,
    answer_stream: AnswerStream,
    run: PipelineRun,
    *,
    may_be_empty: bool = False,
) -> None:
    """Let the model write a whole answer; raise ProviderError."""
    async with aclosing(run.stream(request)) as pieces:
        async for piece in pieces:
            await answer_stream.feed(piece.text)
            if piece.notice:
                await run.emit("notice", {"step": "generate", "text": piece.notice})
    await answer_stream.finish(may_be_empty=may_be_empty)


async def apply_citation_policy(
    asked: ChatRequest,
    answer_stream: AnswerStream,
    query: str,
    run: PipelineRun,
    *,
    left_s: float | None = None,
) -> PipelineState:
    """Return the state of an answer that was written, by the rule for quotes that do not hold.

    A repair has ``left_s``; else what is left of the request's time, as what was written stands.
    """
    writer = answer_stream.writer
    if writer.n_dropped:
        await run.emit("notice", {"step": "generate", "dropped_sentences": writer.n_dropped})
        if writer.is_empty:
            await answer_stream.emit_own(dropped_text(query))
            return final_state(writer.result("unknown"))
    if writer.failed and run.config.citation_failure == "repair" and run.can_write:
        again = repair_messages(asked.messages, writer.raw, writer.failed, language_of(query))
        if left_s is None:
            spent_s = time.monotonic() - answer_stream.started
            left_s = max(0.0, REPAIR_TIME_SHARE * (asked.timeout_s - spent_s))
        # Without the question no model answers by quoting.
        request = replace(
            asked, messages=again, question="", tools=(), options={}, timeout_s=left_s
        )
        return final_state(await _repaired(request, writer, run))
    return final_state(writer.result())


def final_state(answer: VerifiedAnswer) -> PipelineState:
    """Return the state of an answer as it was shown."""
    return {
        "final_answer": answer.text,
        "outcome": answer.outcome,
        "citations": [asdict(citation) for citation in answer.citations],
    }


async def _repaired(request: ChatRequest, writer: AnswerWriter, run: PipelineRun) -> VerifiedAnswer:
    """Return the answer written once more, if more of its quotes hold; else the one before."""
    try:
        reply = await run.ask(request)
    except ProviderError as error:
        await run.emit("notice", {"step": "repair", "error": error.as_dict()})
        return writer.result()
    after = writer.repaired(reply.text)
    if after is None:
        await run.emit("notice", {"step": "repair", "kept": "original"})
        return writer.result()
    citations = [asdict(citation) for citation in after.citations]
    await run.emit("replace", {"text": after.text, "citations": citations})
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
    await stream_answer(agent_request(messages, state["query"], (), run), answer_stream, run)
    return final_state(answer_stream.writer.result("remembered"))


async def generate_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``final_answer``, ``citations`` and ``outcome``; raise ProviderError."""
    query, way = state["query"], state.get("route") or "retrieve"
    if way == "small_talk":
        if not run.can_write:
            return await emit_answer(greeting_text(query), way, run)
        answer_stream = AnswerStream((), run, shows_marks=False)
        await stream_answer(
            agent_request(small_talk_messages(state, run), query, (), run), answer_stream, run
        )
        return final_state(answer_stream.writer.result(way))
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
    request = agent_request(answer_messages(state, context, run), asked, context.passages, run)
    answer_stream = AnswerStream(context.passages, run)
    await stream_answer(request, answer_stream, run)
    return await apply_citation_policy(request, answer_stream, query, run)


def agent_request(
    messages: Sequence[Message], question: str, passages: Sequence[Passage], run: PipelineRun
) -> ChatRequest:
    """Return what an agent's model is asked for an answer from passages."""
    return answer_request(
        messages=messages,
        question=question,
        passages=passages,
        temperature=run.temperature,
        max_tokens=run.config.max_tokens,
        timeout_s=run.config.generate_timeout_s,
    )


async def emit_answer(text: str, outcome: str, run: PipelineRun) -> PipelineState:
    """Tell a text of our own as the answer."""
    await run.emit("delta", {"text": text})
    return final_state(VerifiedAnswer(text, outcome=outcome))


def _sources(context: Context, hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """Return what was looked at, those first that the model is shown, with the ids it cites."""
    shown = [(passage.doc_id, passage.hit) for passage in context.passages]
    rest = [("", hit) for hit in hits[len(shown) :]]
    return [{**hit.as_dict(), "doc_id": doc_id} for doc_id, hit in [*shown, *rest]]
