"""Grounded answers: jobs of the answer pipeline whose text says by spans where claims come from.

A chat model writes from local passages; Gemini File Search searches and writes by itself.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.file_search import FileSearch, GroundedAnswer, GroundedQuestion, Grounding
from rag.core.types import ChatReply, Citation, SearchResult
from rag.services.answers.pipeline import ChatCall
from rag.services.answers.remote_result import remote_result
from rag.services.search import log_query
from rag.services.usage import metered_stream, record_answer, reserved_answer
from rag.stages.citing.render import Marks, Part
from rag.stages.prompting.context import Passage


@dataclass(slots=True, kw_only=True)
class GroundedChat(ChatCall):
    """A chat model's answer with groundings; one that comes from a search is logged.

    ``documents`` are the texts that it cites, of stores else the answer itself.
    """

    scope: Scope
    marks: Marks = "spans"
    result: SearchResult | None = None
    stores: Sequence[models.Store] = ()

    def feed(self, piece: ChatReply) -> list[GroundedAnswer]:
        """Return the text that a piece lets go."""
        text = _text(self.take(piece))
        return [GroundedAnswer(text)] if text else []

    def finish(self, *, is_whole: bool) -> list[GroundedAnswer]:
        """Return the rest, or the whole, with its groundings."""
        rest, reply = _text(self.writer.finish()), self.last
        verified = self.writer.result()
        passages = {passage.doc_id: passage for passage in self.context.passages}
        names = {store.pk: store.resource_name for store in self.stores}
        groundings = tuple(
            _grounding(citation, passages[citation.doc_id], span, names)
            for citation, span in zip(verified.citations, self.writer.spans, strict=True)
            if citation.doc_id in passages and citation.verdict != "unknown"
        )
        whole, documents = verified.text, dict.fromkeys(one.chunk for one in groundings)
        if self.result is not None:
            log_query(
                result=self.result, scope=self.scope, answer=whole, citations=verified.citations
            )
            documents = documents or {whole: None}
        return [
            GroundedAnswer(
                whole if is_whole else rest,
                groundings,
                tuple(documents),
                model=reply.model,
                finish_reason=reply.finish_reason,
                input_tokens=reply.input_tokens,
                output_tokens=reply.output_tokens,
                notice=reply.notice,
            )
        ]


def _text(parts: Sequence[Part]) -> str:
    return "".join(part for part in parts if isinstance(part, str))


def _grounding(
    citation: Citation, passage: Passage, span: tuple[int, int], names: Mapping[int, str]
) -> Grounding:
    hit = passage.hit
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
    store = names.get(hit.store_id or 0, "")
    document = f"{store}/documents/{hit.file_id}"
    return replace(found, chunk=hit.text, document=document, store=store)


@dataclass(slots=True, kw_only=True)
class GroundedGemini:
    """Gemini's answer as it gives it: its budget is reserved, its tokens are recorded.

    ``stores`` are those that are asked, none for files sent along.
    """

    question: GroundedQuestion
    backend: FileSearch
    kind: str
    scope: Scope
    deadline: Deadline
    stores: Sequence[models.Store] = ()
    last: GroundedAnswer = field(init=False, default_factory=lambda: GroundedAnswer(""))
    text: str = field(init=False, default="")
    started: float = field(init=False, default_factory=time.perf_counter)

    def generate(self) -> GroundedAnswer:
        """Return the whole answer; raise what ``reserve`` and Gemini raise."""
        model = self.question.model
        with reserved_answer(scope=self.scope, deadline=self.deadline, model=model) as hold:
            answer = self.backend.answer(self.question, deadline=self.deadline)
        store = self.stores[0] if self.stores else None
        record_answer(answer=answer, kind=self.kind, scope=self.scope, store=store, hold=hold)
        return answer

    def stream(self) -> AsyncGenerator[GroundedAnswer, None]:
        """Yield the answer as it comes."""
        return metered_stream(
            pieces=self.backend.stream(self.question, deadline=self.deadline),
            kind=self.kind,
            scope=self.scope,
            deadline=self.deadline,
            store=self.stores[0] if self.stores else None,
            model=self.question.model,
        )

    def feed(self, piece: GroundedAnswer) -> list[GroundedAnswer]:
        """Return the piece."""
        self.last, self.text = piece, self.text + piece.text
        return [piece]

    def finish(self, *, is_whole: bool) -> list[GroundedAnswer]:
        """Return the answer; the query log keeps it when stores were asked."""
        answer = replace(self.last, text=self.text)
        if self.stores:
            result = remote_result(question=self.question, answer=answer)
            result = replace(result, store_ids=tuple(store.pk for store in self.stores))
            log_query(result=result, scope=self.scope, answer=answer.text)
        return [answer] if is_whole else []
