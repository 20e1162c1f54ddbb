"""Answer pipeline: prepare, context, generate, verify; the one way of every answer.

An ``AnswerJob`` is prepared with the database and then driven whole (``run_job``) or piece by
piece (``stream_job``). What is said of an answer is said by ``AnswerWriter``: which text and
citations are shown, whether quotes hold, what came of it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from asgiref.sync import sync_to_async

from rag import models
from rag.core.deadline import Deadline
from rag.core.ports import ChatModel, ChatRequest
from rag.core.types import ChatReply, Citation, Message, RetrievalSettings, SearchResult
from rag.providers.postgres.db.connections import release_db
from rag.services.wiring import registry
from rag.stages.citing.render import (
    HOLDING_VERDICTS,
    CitationRenderer,
    Marks,
    Part,
    failed_citations,
)
from rag.stages.citing.verify import verify_citations
from rag.stages.prompting.context import Context, Passage, build_context
from rag.stages.prompting.prompt import answer_prompt

MIN_CALL_S, MAX_CALL_S = 0.05, 120.0
P = TypeVar("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class AnswerJob(Protocol[P, T_co]):
    """One answer, prepared: ``P`` is what a model gives, ``T`` what the caller is given."""

    def generate(self) -> P:
        """Return the model's whole reply; the database is not held meanwhile."""
        ...

    def stream(self) -> AsyncGenerator[P, None]:
        """Yield the reply as it comes; closing it stops the model."""
        ...

    def feed(self, piece: P) -> Sequence[T_co]:
        """Return what may be shown after a piece; no database here."""
        ...

    def finish(self, *, is_whole: bool) -> Sequence[T_co]:
        """Return the rest, the answer last, and log it; ``is_whole``: none of it was shown."""
        ...


def run_job(prepare: Callable[[], AnswerJob[P, T]]) -> T:
    """Return a whole answer; raise what preparing it and the model raise."""
    job = prepare()
    release_db()
    job.feed(job.generate())
    return job.finish(is_whole=True)[-1]


async def stream_job(prepare: Callable[[], AnswerJob[P, T]]) -> AsyncGenerator[T, None]:
    """Yield an answer as it comes, the whole or its end last; leaving stops the model."""
    job = await sync_to_async(prepare)()
    await sync_to_async(release_db)()
    # Not left to the garbage collector, which would let the model go on for a while.
    async with aclosing(job.stream()) as pieces:
        async for piece in pieces:
            for part in job.feed(piece):
                yield part
    for part in await sync_to_async(job.finish)(is_whole=False):
        yield part
    await sync_to_async(release_db)()


def store_context(
    *, result: SearchResult, settings: RetrievalSettings, store: models.Store
) -> Context:
    """Return hits as the model sees them, counted by the tokenizer of the store's embedder."""
    count = registry.embedder_of(store.live_space_id).tokenizer.count
    return build_context(
        result.hits,
        settings.context_tokens,
        count,
        context_type=settings.context_type,
        language_of=result.query,
    )


def answer_request(
    *, messages: Sequence[Message], question: str, passages: Sequence[Passage], **limits: Any
) -> ChatRequest:
    """Return what a model is asked for an answer from passages."""
    shown = [(passage.doc_id, passage.hit.text) for passage in passages]
    return ChatRequest(list(messages), question=question, passages=shown, **limits)


@dataclass(frozen=True, slots=True)
class VerifiedAnswer:
    """An answer as it is shown, its citations with their verdicts, and what came of it."""

    text: str
    citations: tuple[Citation, ...] = ()
    outcome: str = "answered"


def verify_answer(
    raw: str, passages: Sequence[Passage], *, is_strict: bool = False
) -> VerifiedAnswer:
    """Return a text that was written already, with ``[n]`` for its citations."""
    return VerifiedAnswer(*verify_citations(raw, passages, is_strict=is_strict))


class AnswerWriter(CitationRenderer):
    """An answer while it is written: what is shown, what it cites, what came of it.

    ``own`` are words of ours, ``raw`` those of the model with its markers.
    """

    def __init__(
        self, passages: Sequence[Passage], *, marks: Marks = "numbered", drops_failed: bool = False
    ) -> None:
        super().__init__(passages, marks=marks, drops_failed=drops_failed)
        self.passages, self.own, self.raw = passages, "", ""
        self.citations: list[Citation] = []
        self._shown: list[str] = []

    @property
    def text(self) -> str:
        """Return what has been shown so far."""
        return "".join(self._shown)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is shown of what the model wrote."""
        return not self.text.removeprefix(self.own).strip()

    @property
    def failed(self) -> list[Citation]:
        """Return the citations whose quote no source holds."""
        return failed_citations(self.citations)

    @property
    def is_verified(self) -> bool:
        """Return whether a quote holds."""
        return any(citation.verdict in HOLDING_VERDICTS for citation in self.citations)

    def say(self, text: str) -> str:
        """Show words of our own."""
        self.own += text
        self._shown.append(text)
        return text

    def feed(self, piece: str) -> list[Part]:
        """Take a piece of what the model writes; return what it lets go."""
        self.raw += piece
        return self._kept(super().feed(piece))

    def finish(self) -> list[Part]:
        """Return what is left when the model ends."""
        return self._kept(super().finish())

    def retract(self) -> bool:
        """Take back what was shown; return whether there was anything."""
        had, self._shown, self.citations = bool(self._shown), [], []
        return had

    def result(self, outcome: str = "answered") -> VerifiedAnswer:
        """Return the answer as shown."""
        return VerifiedAnswer(self.text, tuple(self.citations), outcome)

    def repaired(self, raw: str) -> VerifiedAnswer | None:
        """Return the answer as it was written once more, None unless more of its quotes hold."""
        again = verify_answer(raw, self.passages)
        is_better = len(failed_citations(again.citations)) < len(self.failed)
        if not (is_better and again.citations and again.text.strip()):
            return None
        return replace(again, text=self.own + again.text)

    def _kept(self, parts: list[Part]) -> list[Part]:
        for part in parts:
            if isinstance(part, str):
                self._shown.append(part)
            else:
                self.citations.append(part)
        return parts


@dataclass(slots=True, kw_only=True)
class ChatCall:
    """What a chat model does in an ``AnswerJob``; subclasses say what is shown of it.

    Without a ``deadline`` the model's own time counts.
    """

    question: str
    context: Context
    chat: ChatModel
    marks: Marks = "numbered"
    deadline: Deadline | None = None
    writer: AnswerWriter = field(init=False)
    last: ChatReply = field(init=False)
    started: float = field(init=False, default=0.0)
    answered: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.writer = AnswerWriter(self.context.passages, marks=self.marks)
        self.last = ChatReply("", model=self.chat.id)

    def generate(self) -> ChatReply:
        """Return the whole reply; raise what the model raises, and at the deadline."""
        reply = self.chat.generate(self._request())
        self._check()
        return reply

    async def stream(self) -> AsyncGenerator[ChatReply, None]:
        """Yield the reply as it comes."""
        async with aclosing(self.chat.stream(self._request())) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                self._check()
                yield piece

    def take(self, piece: ChatReply) -> list[Part]:
        """Return what a piece lets go."""
        self.last, self.answered = piece, time.perf_counter()
        return self.writer.feed(piece.text)

    def _request(self) -> ChatRequest:
        self._check()
        limits: dict[str, Any] = {}
        if self.deadline is not None:
            limits = {"timeout_s": min(MAX_CALL_S, max(MIN_CALL_S, self.deadline.remaining_s))}
        self.started = self.answered = time.perf_counter()
        prompt = answer_prompt(self.question, self.context)
        return answer_request(
            messages=[Message(role, text) for role, text in prompt],
            question=self.question,
            passages=self.context.passages,
            **limits,
        )

    def _check(self) -> None:
        if self.deadline is not None:
            self.deadline.check()
