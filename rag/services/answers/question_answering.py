"""Question answering over stores: retrieval, prompt, chat model, citations; whole or streamed.

Stores at Gemini are asked there: of the settings, metadata, content types and top_k are passed on.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.core.file_search import GroundedAnswer, GroundedQuestion
from rag.core.types import Answer, ChatReply, Citation, RetrievalSettings, SearchResult
from rag.services.answers.file_search import prepare_stores
from rag.services.answers.grounded import GroundedGemini
from rag.services.answers.pipeline import AnswerJob, ChatCall, run_job, store_context, stream_job
from rag.services.answers.remote_result import metadata_filter_text, remote_answer
from rag.services.search import log_query, retrieve, validated_query
from rag.services.wiring.accounts import chat_for
from rag.stages.citing.render import Part

AnswerPart = ChatReply | Citation | Answer


def ask(
    *,
    question: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    model: str = "",
) -> Answer:
    """Return the answer of ``model`` (``provider:model``; empty: the configured one, or Gemini)."""
    answer = run_job(partial(_prepare, question, scope, stores, settings, model))
    assert isinstance(answer, Answer)
    return answer


def stream_ask(
    *,
    question: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    model: str = "",
) -> AsyncIterator[AnswerPart]:
    """Yield text as it comes (joined, it is the answer's), citations, and the whole at the end.

    Gemini names sources at its end: its text has no marks, they would come too late.
    """
    return stream_job(partial(_prepare, question, scope, stores, settings, model))


def _prepare(
    question: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None,
    model: str,
) -> AnswerJob[Any, AnswerPart]:
    if any(store.is_remote for store in stores):
        asked = _remote_question(question, stores, settings, model)
        job = prepare_stores(asked, scope, Deadline(conf().timeout_s))
        assert isinstance(job, GroundedGemini)
        return _GeminiAnswer(job)
    chat = chat_for(scope=scope, kind="ask", model=model, stores=stores)
    if not stores:
        raise InvalidInputError("No store was chosen.", hint="Name at least one.")
    settings = settings or stores[0].retrieval_settings
    result = retrieve(
        query=question, scope=scope, stores=stores, settings=settings, purpose="answer"
    )
    return StoreAnswer(
        question=result.query,
        context=store_context(result=result, settings=settings, store=stores[0]),
        chat=chat,
        result=result,
        scope=scope,
    )


@dataclass(slots=True, kw_only=True)
class StoreAnswer(ChatCall):
    """A chat model's answer from hits, with ``[n]`` for its citations."""

    result: SearchResult
    scope: Scope
    is_logged: bool = True

    def feed(self, piece: ChatReply) -> list[AnswerPart]:
        """Return text and citations that a piece lets go."""
        return self._shown(self.take(piece))

    def finish(self, *, is_whole: bool) -> list[AnswerPart]:
        """Return the rest and the whole answer."""
        rest = self._shown(self.writer.finish())
        verified = self.writer.result()
        timings = {
            **self.result.timings_ms,
            "model": (self.answered - self.started) * 1e3,
            "cite": (time.perf_counter() - self.answered) * 1e3,
        }
        if self.is_logged:
            log_query(
                result=self.result,
                scope=self.scope,
                answer=verified.text,
                citations=verified.citations,
            )
        answer = Answer(
            question=self.result.query,
            text=verified.text,
            citations=verified.citations,
            result=self.result,
            model=self.last.model or self.chat.id,
            notice=self.last.notice,
            timings_ms=timings,
        )
        return [*rest, answer]

    def _shown(self, parts: Sequence[Part]) -> list[AnswerPart]:
        return [replace(self.last, text=one) if isinstance(one, str) else one for one in parts]


@dataclass(slots=True)
class _GeminiAnswer:
    """Gemini's answer, each stretch checked against the chunk that it names."""

    job: GroundedGemini
    started: float = field(init=False, default_factory=time.perf_counter)

    def generate(self) -> GroundedAnswer:
        return self.job.generate()

    def stream(self) -> AsyncGenerator[GroundedAnswer, None]:
        return self.job.stream()

    def feed(self, piece: GroundedAnswer) -> list[AnswerPart]:
        self.job.feed(piece)
        return [ChatReply(piece.text, model=piece.model)] if piece.text else []

    def finish(self, *, is_whole: bool) -> list[AnswerPart]:
        (grounded,) = self.job.finish(is_whole=True)
        answer = remote_answer(question=self.job.question, answer=grounded, is_marked=is_whole)
        timings = {"model": (time.perf_counter() - self.started) * 1e3}
        return [*answer.citations, replace(answer, timings_ms=timings)]


def _remote_question(
    text: str, stores: Sequence[models.Store], settings: RetrievalSettings | None, model: str
) -> GroundedQuestion:
    settings = settings or stores[0].retrieval_settings
    return GroundedQuestion(
        validated_query(query=text),
        [store.resource_name for store in stores],
        top_k=settings.top_k,
        model=model,
        metadata_filter=metadata_filter_text(
            metadata=dict(settings.metadata), content_types=settings.content_types
        ),
    )
