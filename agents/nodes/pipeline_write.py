"""An answer told while it is written, and checked. In: a request. Out: text, citations, outcome.

What fails the check is marked, dropped or repaired, as the agent's config says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from agents.core.pipeline import PipelineRun, PipelineState
from agents.nodes.pipeline_data import language_of
from agents.nodes.pipeline_prompt import repair_messages
from agents.nodes.pipeline_texts import dropped_text
from rag.core.errors import ProviderError
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply, Citation, Message
from rag.services.checked_stream import CheckedStream, checked_text, failed
from rag.stages.context import Passage


class Teller:
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

    async def say(self, text: str) -> None:
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

    async def take_back(self) -> None:
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


async def write(
    request: ChatRequest, teller: Teller, run: PipelineRun, *, may_be_empty: bool = False
) -> None:
    """Let the model write a whole answer; raise ProviderError."""
    pieces: Any = run.stream(request)
    async with aclosing(pieces):
        async for piece in typed(pieces):
            await teller.feed(piece.text)
            if piece.notice:
                await run.emit("notice", {"step": "generate", "text": piece.notice})
    await teller.finish(may_be_empty=may_be_empty)


async def settle(asked: ChatRequest, teller: Teller, query: str, run: PipelineRun) -> PipelineState:
    """Return the state of an answer that was written, by the rule for quotes that do not hold."""
    if teller.n_dropped:
        await run.emit("notice", {"step": "generate", "dropped_sentences": teller.n_dropped})
        if not teller.text.removeprefix(teller.own).strip():
            await teller.say(dropped_text(query))
            return done(teller.text, "unknown")
    wrong = failed(teller.citations)
    if wrong and run.config.citation_failure == "repair" and run.can_write:
        again = repair_messages(asked.messages, teller.raw, wrong, language_of(query))
        return await _repaired(again, asked, teller, run)
    return done(teller.text, "answered", teller.citations)


async def typed(pieces: Any) -> AsyncIterator[ChatReply]:
    """Yield the pieces of a stream that was opened with ``aclosing``."""
    async for piece in pieces:
        yield piece


def done(text: str, outcome: str, citations: Sequence[Citation] = ()) -> PipelineState:
    """Return the state of an answer as it was told."""
    told = [asdict(citation) for citation in citations]
    return {"final_answer": text, "outcome": outcome, "citations": told}


async def _repaired(
    messages: Sequence[Message], asked: ChatRequest, teller: Teller, run: PipelineRun
) -> PipelineState:
    """Return the answer written once more, if more of its quotes hold; else the one before."""
    request = ChatRequest(
        list(messages), passages=asked.passages, temperature=asked.temperature,
        max_tokens=asked.max_tokens, timeout_s=asked.timeout_s,
    )  # fmt: skip
    before = done(teller.text, "answered", teller.citations)
    try:
        reply = await run.ask(request)
    except ProviderError as error:
        await run.emit("notice", {"step": "repair", "error": error.as_dict()})
        return before
    text, citations = checked_text(reply.text, teller.passages)
    is_better = len(failed(citations)) < len(failed(teller.citations)) and citations
    if not is_better or not text.strip():
        await run.emit("notice", {"step": "repair", "kept": "original"})
        return before
    after = done(teller.own + text, "answered", citations)
    await run.emit("replace", {"text": after["final_answer"], "citations": after["citations"]})
    return after
