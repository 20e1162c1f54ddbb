"""Answer pipeline: prepare, context, generate, verify, for ask, file search, files and Gemini.

A job is prepared with the database and driven whole (``run_job``) or piece by piece
(``stream_job``). An agent has steps of its own, and ``AnswerStream`` of ``agents.chat.pipelines``
instead of a job. Retrieval, context and ``AnswerWriter``, which says what is shown and cited, are
the same for both.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from asgiref.sync import sync_to_async

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.file_search import GroundedAnswer, Grounding
from rag.core.hits import Hit
from rag.core.ports import ChatModel, ChatRequest
from rag.core.sources import enhance_with
from rag.core.types import (
    NO_ENHANCER,
    Answer,
    ChatReply,
    Citation,
    Message,
    RetrievalSettings,
    SearchResult,
)
from rag.providers.postgres.db.connections import release_db
from rag.services.search import document_notice, log_query
from rag.services.webhooks import announce_answer
from rag.services.wiring import registry
from rag.stages.citing.verify import (
    AnswerWriter,
    Marks,
    Part,
    VerifiedAnswer,
    answer_confidence,
)
from rag.stages.prompting.abstention import doubt_notice, refusal_text
from rag.stages.prompting.context import Context, build_context
from rag.stages.prompting.prompt import answer_prompt

MIN_CALL_S = 0.05


@dataclass(slots=True, kw_only=True)
class AnswerJob(ABC):
    """One answer, prepared; subclasses say which model writes it and what it is given.

    ``last`` is the model's last piece, a whole reply or one of many; ``verified`` is there at the
    end. What comes from a search (``result``) is logged. ``doubt`` tells the reader that the
    sources may not hold the answer.
    """

    scope: Scope
    marks: Marks = "numbered"
    deadline: Deadline | None = None
    stores: Sequence[models.Store] = ()
    result: SearchResult | None = None
    is_logged: bool = True
    doubt: str = ""
    last: Any = field(init=False)
    writer: AnswerWriter = field(init=False)
    verified: VerifiedAnswer = field(init=False)
    started: float = field(init=False, default_factory=time.perf_counter)
    answered: float = field(init=False, default=0.0)
    cited: float = field(init=False, default=0.0)

    @abstractmethod
    def generate(self) -> Any:
        """Return the model's whole reply; the database is not held meanwhile."""

    @abstractmethod
    def stream(self) -> AsyncGenerator[Any, None]:
        """Yield the reply as it comes; closing it stops the model."""

    @abstractmethod
    def take(self, piece: Any) -> list[Part]:
        """Return what may be shown after a piece; no database here."""

    @abstractmethod
    def finish(self) -> list[Part]:
        """Return what is left to be shown, and log the answer."""

    @abstractmethod
    def grounded(self) -> GroundedAnswer:
        """Return the finished answer with spans that say where its claims come from."""

    def answer(self) -> Answer:
        """Return the finished answer of a search."""
        assert self.result is not None, "it was searched"
        return Answer(
            question=self.result.query,
            text=self.verified.text,
            citations=self.verified.citations,
            result=self.result,
            model=self.last.model,
            notice=self._notice(),
            outcome=self.verified.outcome,
            confidence=answer_confidence(self.result.confidence, self.verified),
            groundedness=self.verified.groundedness,
            timings_ms={
                **self.result.timings_ms,
                "model": (self.answered - self.started) * 1e3,
                "cite": (self.cited - self.answered) * 1e3,
            },
        )

    @property
    def _documents(self) -> Mapping[str, Any]:
        """Return which documents the question named, as the search tells it."""
        return (self.result.metadata.get("documents") if self.result else None) or {}

    def _notice(self) -> str:
        """Return which documents the search was for, what is doubtful, and what the model says."""
        query = self.result.query if self.result else ""
        known = self._documents
        told = document_notice(documents=known, query=query) if known else ""
        return " ".join(filter(None, (told, self.doubt, self.last.notice)))


Prepare = Callable[[], AnswerJob]


def run_job(prepare: Prepare) -> AnswerJob:
    """Return a job with its whole answer; raise what preparing it and the model raise."""
    job = prepare()
    release_db()
    job.take(job.generate())
    job.finish()
    return job


async def stream_job(prepare: Prepare) -> AsyncGenerator[tuple[AnswerJob, Part | None], None]:
    """Yield an answer's job with each part as it comes, with None at the end.

    Leaving stops the model.
    """
    job = await sync_to_async(prepare)()
    await sync_to_async(release_db)()
    # Not left to the garbage collector, which would let the model go on for a while.
    async with aclosing(job.stream()) as pieces:
        async for piece in pieces:
            for part in job.take(piece):
                yield job, part
    rest = await sync_to_async(job.finish)()
    await sync_to_async(release_db)()
    for part in rest:
        yield job, part
    yield job, None


@dataclass(slots=True, kw_only=True)
class ChatJob(AnswerJob):
    """A chat model's answer from passages, each call within RAG_TIMEOUT_S and the ``deadline``.

    A ``refusal`` is told in its place, and no model is asked.
    """

    question: str
    context: Context
    chat: ChatModel
    refusal: str = ""
    enhancement: str = NO_ENHANCER

    def __post_init__(self) -> None:
        self.writer = AnswerWriter(self.context.passages, question=self.question, marks=self.marks)
        self.last = ChatReply("", model=self.chat.id)
        if self.refusal:
            self.last = ChatReply("", finish_reason="stop")

    def generate(self) -> ChatReply:
        """Return the whole reply; raise what the model raises, and at the deadline."""
        if self.refusal:
            return ChatReply("")
        reply = self.chat.generate(self._request())
        self._check()
        return reply

    async def stream(self) -> AsyncGenerator[ChatReply, None]:
        """Yield the reply as it comes."""
        if self.refusal:
            return
        async with aclosing(self.chat.stream(self._request())) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                self._check()
                yield piece

    def take(self, piece: ChatReply) -> list[Part]:
        """Return what a piece lets go."""
        self.answered = _now()
        if self.refusal:
            return []
        self.last = replace(piece, model=piece.model or self.chat.id)
        return self.writer.feed(piece.text)

    def finish(self) -> list[Part]:
        """Return the rest, or the refusal."""
        rest: list[Part] = self.writer.finish()
        if self.refusal:
            rest = [self.writer.say(self.refusal)]
        said = self.verified = self.writer.result("not_found" if self.refusal else "")
        self.cited = _now()
        if self.result is not None and self.is_logged:
            log_query(
                result=self.result, scope=self.scope, answer=said.text, citations=said.citations
            )
            stores = [store.slug for store in self.stores]
            announce_answer(outcome=said.outcome, data={"stores": stores})
        return rest

    def grounded(self) -> GroundedAnswer:
        """Return the answer; ``documents`` are the texts it cites, of stores else the answer."""
        hits = {passage.doc_id: passage.hit for passage in self.context.passages}
        groundings = tuple(
            self._grounding(citation, span, hits[citation.doc_id])
            for citation, span in zip(self.verified.citations, self.writer.spans, strict=True)
            if citation.doc_id in hits and citation.verdict != "unknown"
        )
        documents = tuple(dict.fromkeys(one.chunk for one in groundings))
        if self.result is not None:
            documents = documents or (self.verified.text,)
        return GroundedAnswer(
            self.verified.text,
            groundings,
            documents,
            model=self.last.model,
            finish_reason=self.last.finish_reason,
            input_tokens=self.last.input_tokens,
            output_tokens=self.last.output_tokens,
            notice=self._notice(),
            groundedness=self.verified.groundedness,
        )

    def _grounding(self, citation: Citation, span: tuple[int, int], hit: Hit) -> Grounding:
        found = Grounding(
            hit.file_name,
            citation.found or citation.quote,
            page=citation.page,
            start=span[0],
            end=span[1],
            verdict=citation.verdict,
        )
        if hit.file_id is None:
            return found
        stores = (store.resource_name for store in self.stores if store.pk == hit.store_id)
        name = next(stores, "")
        return replace(
            found, chunk=hit.text, document=f"{name}/documents/{hit.file_id}", store=name
        )

    def _request(self) -> ChatRequest:
        self._check()
        left_s = conf().timeout_s
        if self.deadline is not None:
            left_s = min(left_s, max(MIN_CALL_S, self.deadline.remaining_s))
        self.started = self.answered = _now()
        return ChatRequest(
            self._messages(),
            question=self.question,
            passages=self.context.shown,
            table_headers=self.context.table_headers,
            headings=self.context.headings if self._documents.get("is_found") else (),
            timeout_s=left_s,
        )

    def _messages(self) -> list[Message]:
        system, user = answer_prompt(self.question, self.context)
        if self.enhancement != NO_ENHANCER and self.context.text:
            user = ("user", enhance_with(self.enhancement, self.question, self.context.text))
        return [Message(role, text) for role, text in (system, user)]

    def _check(self) -> None:
        if self.deadline is not None:
            self.deadline.check()


def store_job(
    *,
    result: SearchResult,
    settings: RetrievalSettings,
    stores: Sequence[models.Store],
    chat: ChatModel,
    scope: Scope,
    **how: Any,
) -> ChatJob:
    """Return the job of an answer from the hits of a search; ``how`` are further fields of it.

    Tokens are counted by the tokenizer of the first store's embedder. Where the hits may not hold
    the answer, the settings decide whether it is refused or written with a warning.
    """
    judged, refusal = result.answerability, ""
    if judged is not None and judged.is_refused(settings.unanswerable):
        n_below = 0 if result.hits else result.metadata.get("below_thresholds", 0)
        refusal = refusal_text(result.query, judged, n_below)
    context = build_context(
        result.hits,
        settings.context_tokens,
        registry.embedder_of(stores[0].live_space_id).tokenizer.count,
        context_type=settings.context_type,
        language_of=result.query,
    )
    return ChatJob(
        question=result.query,
        context=context,
        chat=chat,
        scope=scope,
        result=result,
        stores=stores,
        refusal=refusal,
        doubt="" if refusal else doubt_notice(result.query, judged),
        **how,
    )


def _now() -> float:
    return time.perf_counter()
