"""Gemini answers converted to our hits, search results and citations.

Gemini does not rank: hits stand in the order of use and have no score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag import models
from rag.core.file_search import GroundedAnswer, GroundedQuestion, Grounding
from rag.core.hits import Hit
from rag.core.rag_node import FILE_SEARCH
from rag.core.types import Answer, Citation, SearchResult
from rag.services.gemini import FILE_KEY
from rag.stages.citing.citation_markers import Marker
from rag.stages.citing.verify import CitationChecker
from rag.stages.prompting.context import Passage
from rag.stages.ranking.metadata_filter import metadata_filter_of

SOURCE = "gemini_file_search"


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


def remote_result(*, question: GroundedQuestion, answer: GroundedAnswer) -> SearchResult:
    """Return the hits of an answer as the result of a search without ranks."""
    hits = remote_hits(answer)
    return SearchResult(
        query=question.text,
        hits=hits,
        mode=FILE_SEARCH,
        top_k=question.top_k or len(hits) or 1,
        settings_hash="",
        routes={},
        timings_ms={},
    )


def remote_answer(
    *, question: GroundedQuestion, answer: GroundedAnswer, is_marked: bool = True
) -> Answer:
    """Return the answer with ``[n]`` where its stretches end, each checked against its chunk."""
    result = remote_result(question=question, answer=answer)
    passages = [Passage(f"doc_{hit.rank:02d}", hit, hit.text) for hit in result.hits]
    places = {(p.hit.file_name, p.hit.text): p for p in passages}
    checker = CitationChecker(passages)
    text, shift = answer.text, 0
    citations: list[Citation] = []
    ends = [one for one in answer.groundings if one.start is not None and one.end is not None]
    for one in sorted(ends, key=lambda grounding: grounding.end or 0):
        claim = answer.text[one.start : one.end]
        passage = places[one.source, one.chunk]
        citation = checker.check(Marker(passage.doc_id, "", claim))
        citations.append(_named(citation, passage))
        mark = f"[{citation.number}]" if is_marked else ""
        at = (one.end or 0) + shift
        text, shift = text[:at] + mark + text[at:], shift + len(mark)
    return Answer(
        question=question.text,
        text=text,
        citations=tuple(citations),
        result=result,
        model=answer.model,
        notice=answer.notice,
    )


def metadata_filter_text(*, metadata: dict[str, object], content_types: Sequence[str]) -> str:
    """Return the filter that asks for what retrieval settings ask for."""
    types = " OR ".join(metadata_filter_of({"content_type": kind}) for kind in content_types)
    return " AND ".join(filter(None, [metadata_filter_of(metadata), f"({types})" if types else ""]))


def _named(citation: Citation, passage: Passage) -> Citation:
    # A claim in other words than its source is still known to come from there.
    return citation if citation.file_name else replace(citation, file_name=passage.hit.file_name)


def _own_id(one: Grounding) -> str:
    number = str(one.metadata.get(FILE_KEY, ""))
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        return ""
    names = models.File.objects.filter(pk=int(number)).values_list("remote_name", flat=True)
    return names.first() or ""
