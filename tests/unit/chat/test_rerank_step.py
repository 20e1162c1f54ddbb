"""Results are ranked again only where there are more than three, and never lost by it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agents.chat.pipelines.rag import MIN_RERANKED, rag_pipeline
from agents.core.agent_config import AgentConfig
from agents.core.pipeline import RerankedHits, run_step
from rag.core.errors import ProviderError
from rag.core.hits import Hit


class Run:
    """A run whose ranker turns the hits around, or raises."""

    def __init__(self, *, can_rank: bool = True, confidence: float | None = None) -> None:
        self.config = AgentConfig.from_dict({"rerank_top_k": 2, "default_top_k": 4})
        self.can_rank, self.confidence = can_rank, confidence
        self.fault: ProviderError | None = None
        self.asked: list[str] = []
        self.told: list[Any] = []

    async def rerank(self, query: str, hits: Sequence[Hit]) -> RerankedHits:
        self.asked.append(query)
        if self.fault:
            raise self.fault
        return RerankedHits(list(hits)[::-1], "llm", self.confidence)

    async def emit(self, kind: str, data: Any) -> None:
        self.told.append((kind, data))


def ranked(run: Run, n_hits: int, **more: Any) -> Any:
    (step,) = (one for stage in rag_pipeline().stages for one in stage if one.name == "rerank")
    hits = [Hit(text=str(number), rank=number) for number in range(1, n_hits + 1)]
    state: Any = {"query": "q", "search_results": hits, "enable_rerank": True, "top_k": 4, **more}
    lent: Any = run
    return asyncio.run(run_step(step, state, lent))


def texts(update: Any) -> list[tuple[str, int]]:
    return [(hit.text, hit.rank) for hit in update["reranked_results"]]


@pytest.mark.parametrize(
    ("n_hits", "more", "can_rank"),
    [(MIN_RERANKED, {}, True), (0, {}, True), (6, {"enable_rerank": False}, True), (6, {}, False)],
)
def test_few_results_and_those_that_nobody_can_rank_stay_as_found(
    n_hits: int, more: Any, can_rank: bool
) -> None:
    run = Run(can_rank=can_rank)
    update = ranked(run, n_hits, **more)
    assert run.asked == [] and "confidence" not in update
    assert texts(update) == [(str(n), n) for n in range(1, min(n_hits, 4) + 1)]


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_more_than_three_are_ranked_and_the_best_kept(confidence: float | None) -> None:
    run = Run(confidence=confidence)
    update = ranked(run, MIN_RERANKED + 1, rewritten_query="whole question")
    assert run.asked == ["whole question"] and texts(update) == [("4", 1), ("3", 2)]
    assert update.get("confidence") == confidence


def test_a_ranking_that_fails_keeps_the_order_and_is_told() -> None:
    run = Run()
    run.fault = ProviderError("rubbish")
    assert texts(ranked(run, 6)) == [(str(n), n) for n in range(1, 5)]
    (notice,) = (data for kind, data in run.told if kind == "notice")
    assert notice["step"] == "rerank" and notice["error"]["message"] == "rubbish"
