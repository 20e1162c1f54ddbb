"""Gemini answers: Gemini searches and writes by itself, and says by spans where claims come from.

Its chunks become hits and passages of ours. Gemini does not rank: hits stand in the order of use
and have no score.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace

from rag import models
from rag.core.file_search import FileSearch, GroundedAnswer, GroundedQuestion, Grounding
from rag.core.hits import Hit
from rag.core.rag_node import FILE_SEARCH
from rag.core.types import Citation, SearchResult
from rag.services.answers.pipeline import AnswerJob
from rag.services.gemini import FILE_KEY
from rag.services.search import log_query
from rag.services.usage import metered_stream, record_answer, reserved_answer
from rag.stages.citing.verify import AnswerWriter, Part
from rag.stages.prompting.context import Passage
from rag.stages.ranking.metadata_filter import metadata_filter_of

SOURCE = "gemini_file_search"


@dataclass(slots=True, kw_only=True)
class GeminiJob(AnswerJob):
    """Gemini's answer: its budget is reserved, its tokens are recorded.

    ``stores`` are those that are asked, none for files sent along; only with them it is logged.
    Each stretch is checked against the chunk that it names.
    """

    question: GroundedQuestion
    backend: FileSearch
    kind: str
    text: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.last = GroundedAnswer("")

    def generate(self) -> GroundedAnswer:
        """Return the whole answer; raise what ``reserve`` and Gemini raise."""
        assert self.deadline is not None, "Gemini is always asked with one"
        model = self.question.model
        with reserved_answer(scope=self.scope, deadline=self.deadline, model=model) as hold:
            answer = self.backend.answer(self.question, deadline=self.deadline)
        record_answer(answer=answer, kind=self.kind, scope=self.scope, store=self._payer, hold=hold)
        return answer

    def stream(self) -> AsyncGenerator[GroundedAnswer, None]:
        """Yield the answer as it comes."""
        assert self.deadline is not None, "Gemini is always asked with one"
        return metered_stream(
            pieces=self.backend.stream(self.question, deadline=self.deadline),
            kind=self.kind,
            scope=self.scope,
            deadline=self.deadline,
            store=self._payer,
            model=self.question.model,
        )

    def take(self, piece: GroundedAnswer) -> list[Part]:
        """Return the piece's text."""
        self.last, self.text = piece, self.text + piece.text
        return [piece.text] if piece.text else []

    def finish(self) -> list[Part]:
        """Return the citations: Gemini names its sources at the end, too late for marks."""
        self.answered = self.cited = time.perf_counter()
        answer = replace(self.last, text=self.text)
        hits = remote_hits(answer)
        self.result = SearchResult(
            query=self.question.text,
            hits=hits,
            mode=FILE_SEARCH,
            top_k=self.question.top_k or len(hits) or 1,
            settings_hash="",
            routes={},
            timings_ms={},
            store_ids=tuple(store.pk for store in self.stores),
        )
        passages = [Passage(f"doc_{hit.rank:02d}", hit, hit.text) for hit in hits]
        places = {(one.hit.file_name, one.hit.text): one for one in passages}
        self.writer = AnswerWriter(passages, question=self.question.text, marks=self.marks)
        shown = self.writer.ground(
            self.text,
            [
                (one.start, one.end, places[one.source, one.chunk])
                for one in answer.groundings
                if one.start is not None and one.end is not None
            ],
        )
        self.verified = self.writer.result()
        if self.stores:
            log_query(result=self.result, scope=self.scope, answer=self.text)
        return [part for part in shown if isinstance(part, Citation)]

    def grounded(self) -> GroundedAnswer:
        """Return the answer with Gemini's own groundings."""
        told = self.verified.groundedness
        answer: GroundedAnswer = replace(self.last, text=self.text, groundedness=told)
        return answer

    @property
    def _payer(self) -> models.Store | None:
        return self.stores[0] if self.stores else None


def remote_hits(answer: GroundedAnswer) -> tuple[Hit, ...]:
    """Return the chunks that were used, once each, in order; some have a page, none a score."""
    used: dict[tuple[str, str], Grounding] = {}
    for one in answer.groundings:
        used.setdefault((one.source, one.chunk), one)
    return tuple(
        Hit(
            text=one.chunk,
            rank=rank,
            source=SOURCE,
            file_name=one.source,
            external_id=one.document or _own_id(one) or one.source,
            page_first=one.page,
            page_last=one.page,
            metadata=dict(one.metadata),
            content_type=str(one.metadata.get("content_type", "")),
        )
        for rank, one in enumerate(used.values(), 1)
    )


def metadata_filter_text(*, metadata: dict[str, object], content_types: Sequence[str]) -> str:
    """Return the filter that asks for what retrieval settings ask for."""
    types = " OR ".join(metadata_filter_of({"content_type": kind}) for kind in content_types)
    return " AND ".join(filter(None, [metadata_filter_of(metadata), f"({types})" if types else ""]))


def _own_id(one: Grounding) -> str:
    number = str(one.metadata.get(FILE_KEY, ""))
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        return ""
    names = models.File.objects.filter(pk=int(number)).values_list("remote_name", flat=True)
    return names.first() or ""
