"""Postprocessing of hits: near-duplicates go, neighbours merge, files mix, a reranker scores anew.

Rerankers are a chat model (listwise), another plugin, or mixed: the model's score and the vector's,
half and half. One that fails leaves the order.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rag.conf import conf
from rag.core.errors import ProviderError
from rag.core.hits import Hit
from rag.core.ports import ChatRequest
from rag.core.types import RetrievalSettings
from rag.providers.postgres.db.connections import fetch_planned, release_db
from rag.services.wiring import registry as wiring
from rag.services.wiring.rerankers import listwise_request, listwise_scores
from rag.stages.ranking.postprocess import (
    MAX_GAP,
    diversify,
    drop_duplicates,
    join_passages,
    merge_neighbours,
    widen_top_k,
)
from rag.stages.ranking.rerank_prompt import MAX_TEXTS

# All texts between neighbours by one statement, whichever files they are in.
_READ = """
SELECT w.file_id, w.first, substr(f.canonical_text, w.first + 1, w.last - w.first)
FROM unnest(%s::bigint[], %s::int[], %s::int[]) AS w(file_id, first, last)
  JOIN rag_file f ON f.id = w.file_id
"""

_SIBLING = (
    *("chunk_id", "revision", "char_start", "char_end", "page_first", "page_last"),
    *("token_count", "table_header", "text"),
)
# Who may see a hit may see its file's other chunks; edited ones are texts of their own.
_SIBLINGS = """
SELECT c.file_id, c.parent_start, c.id, c.revision, c.char_start, c.char_end, c.page_first,
  c.page_last, c.token_count, c.context, c.text
FROM unnest(%s::bigint[], %s::int[]) AS w(file_id, parent_start)
  JOIN rag_chunk c ON c.file_id = w.file_id AND c.parent_start = w.parent_start AND c.is_live
WHERE c.enabled AND c.origin = 'parsed'
"""
# Of what only stands beside a hit.
UNFOUND = 1 << 30


@dataclass(frozen=True, slots=True)
class PostprocessedHits:
    """Hits numbered from 1, how many of them to show, how many were dropped and merged."""

    hits: tuple[Hit, ...]
    top_k: int
    n_dropped: int
    n_merged: int


def postprocess_hits(
    *, query: str, hits: Sequence[Hit], top_k: int, settings: RetrievalSettings
) -> PostprocessedHits:
    """Return distinct hits of several files, as many as the reranker of ``settings`` reads.

    ``top_k`` is what the query's complexity asks for; where the settings name no number it grows
    for results in another language than the query's.
    """
    distinct, n_dropped = drop_duplicates(hits)
    distinct = _with_passages(distinct)
    merged, n_merged = merge_neighbours(distinct, _Canonical(_runs(distinct)))
    if settings.top_k is None:
        top_k = widen_top_k(query, merged, top_k)
    n_kept = rerank_pool_size(top_k=top_k, settings=settings)
    return PostprocessedHits(tuple(diversify(merged, n_kept)), top_k, n_dropped, n_merged)


def _with_passages(hits: list[Hit]) -> list[Hit]:
    """Return the hits within the passages that they are shown with, where they have any."""
    passages = {(hit.file_id, hit.parent_start): hit for hit in hits}
    places = [place for place in passages if place[1] is not None]
    if not places:
        return hits
    columns = [list(column) for column in zip(*places, strict=True)]
    siblings = [
        replace(
            passages[row[0], row[1]],
            **dict(zip(_SIBLING, row[2:], strict=True)),
            rank=UNFOUND,
            matched_terms=(),
        )
        for row in fetch_planned(_SIBLINGS, columns)
    ]
    return join_passages(hits, siblings, _Canonical(_runs([*hits, *siblings])))


def _runs(hits: Sequence[Hit]) -> list[tuple[int, int, int]]:
    """Return where hits stand close together: file, first character, last."""
    spans = sorted((hit.file_id, hit.char_start, hit.char_end) for hit in hits if hit.file_id)
    runs: list[tuple[int, int, int]] = []
    lone = True
    for file_id, start, end in spans:
        if runs and runs[-1][0] == file_id and start - runs[-1][2] <= MAX_GAP:
            runs[-1] = (file_id, runs[-1][1], max(runs[-1][2], end))
            lone = False
            continue
        if runs and lone:
            runs.pop()
        runs.append((file_id, start, end))
        lone = True
    return runs[:-1] if lone else runs


class _Canonical:
    """The texts of runs, read when the first is asked for; others are empty."""

    def __init__(self, runs: Sequence[tuple[int, int, int]]) -> None:
        self._runs = runs
        self._texts: dict[tuple[int, int], str] | None = None

    def __call__(self, file_id: int, start: int, end: int) -> str:
        if self._texts is None:
            self._texts = _read(self._runs)
        for run_id, first, last in self._runs:
            if run_id == file_id and first <= start and end <= last:
                text = self._texts.get((file_id, first), "")
                return text[start - first : end - first]
        return ""


def _read(runs: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int], str]:
    return {
        (file_id, first): text
        for file_id, first, text in fetch_planned(
            _READ, [list(column) for column in zip(*runs, strict=True)]
        )
    }


# What a reranker is sent of a text: some four chunks of default length, as merged neighbours are.
# Cross-encoders read 512 tokens and cut the rest; the listwise prompt cuts to its own bound.
RERANKED_CHARACTERS = 3600
MODEL_WEIGHT = 0.5


def rerank_hits(
    *, query: str, hits: Sequence[Hit], method: str, model: str = "", timeout_s: float | None = None
) -> tuple[Hit, ...]:
    """Return all hits, the first 20 in the order of ``method``: mixed, or a reranker's name.

    ``model`` is the chat model of llm, and of mixed where no endpoint is set up; empty takes the
    configured one. ``timeout_s`` None is RAG_TIMEOUT_S. A hit's ``score`` becomes its relevance.
    Raises ConfigurationError where there is nobody to rank, ProviderError and ProviderTimeoutError;
    an answer that is no ranking is a ProviderError, so that the order stays.
    """
    if len(hits) < 2:
        return tuple(hits)
    release_db()
    name = _reranker_of(method)
    reranker = wiring.reranker(name, {"model": model} if name == "llm" else {})
    texts = [hit.text[:RERANKED_CHARACTERS] for hit in hits[:MAX_TEXTS]]
    scores = reranker.rerank(query, texts, timeout_s=timeout_s or conf().timeout_s)
    if len(scores) != len(texts):
        raise ProviderError("The reranker “{name}” gave no score for each text.", name=name)
    return reorder_by_scores(hits=hits, scores=scores, method=method)


def _reranker_of(method: str) -> str:
    if method != "mixed":
        return method
    return "endpoint" if conf().rerank_url else "llm"


def ranks_without_chat(*, method: str) -> bool:
    """Return whether an endpoint or another plugin ranks, and no chat model."""
    return _reranker_of(method) != "llm"


def ranking_request(
    *, query: str, hits: Sequence[Hit], model: str, timeout_s: float
) -> ChatRequest:
    """Return what a chat model is asked to rank; ConfigurationError for one that only quotes."""
    texts = [hit.text for hit in hits[:MAX_TEXTS]]
    return listwise_request(query=query, texts=texts, model=model, timeout_s=timeout_s)


def apply_ranking_answer(*, answer: str, hits: Sequence[Hit], method: str) -> tuple[Hit, ...]:
    """Return the hits as a chat model's answer ranks them; ProviderError when it does not."""
    scores = listwise_scores(answer=answer, n_texts=len(hits[:MAX_TEXTS]))
    return reorder_by_scores(hits=hits, scores=scores, method=method)


def reorder_by_scores(
    *, hits: Sequence[Hit], scores: Sequence[float], method: str
) -> tuple[Hit, ...]:
    """Return the hits by their scores, equal ones as they were; those without a score follow."""
    values = list(scores)
    if method == "mixed":
        vectors = [hit.vector.score or 0.0 for hit in hits[: len(values)]]
        low, high = min(vectors), max(vectors)
        width = (high - low) or 1.0
        values = [
            MODEL_WEIGHT * score + (1 - MODEL_WEIGHT) * (vector - low) / width
            for score, vector in zip(values, vectors, strict=True)
        ]
    order = sorted(range(len(values)), key=lambda number: -values[number])
    best = [replace(hits[number], score=round(values[number], 6)) for number in order]
    found = [*best, *hits[len(values) :]]
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(found, start=1))


FAILED = "failed"
log = logging.getLogger(__name__)


def rerank_pool_size(*, top_k: int, settings: RetrievalSettings) -> int:
    """Return how many hits are wanted of the index, so that ``top_k`` can be chosen of them."""
    return top_k if settings.rerank == "none" else max(top_k, settings.rerank_top_k)


def rerank_by_settings(
    *, query: str, hits: Sequence[Hit], settings: RetrievalSettings
) -> tuple[list[Hit], str]:
    """Return the hits, the first ``rerank_top_k`` of them ranked again, and by whom.

    Whoever fails or answers with no ranking leaves the order as it is: ``failed``. Raises
    ConfigurationError where there is nobody to rank.
    """
    if settings.rerank == "none":
        return list(hits), ""
    best, rest = hits[: settings.rerank_top_k], hits[settings.rerank_top_k :]
    try:
        ranked = rerank_hits(query=query, hits=best, method=settings.rerank)
    except ProviderError as error:
        log.warning("Hits stay as found, reranking (%s) failed: %s", settings.rerank, error)
        return list(hits), FAILED
    return [*ranked, *rest], settings.rerank
