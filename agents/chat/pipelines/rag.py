"""RAG agent pipeline: LoadHistory, Route, Rewrite, Search, Rerank, Generate.

A step more is one line: ``rag_pipeline().with_step(Step("glossary", glossary), after="search")``;
parallel steps and branches likewise. See ``agents.core.pipeline``.
"""

from __future__ import annotations

from agents.chat.pipelines.generate_answer import generate_step
from agents.chat.pipelines.recall import load_history_step, parallel_steps
from agents.chat.pipelines.retrieve import (
    keep_search_order,
    rerank_step,
    rewrite_step,
    search_failed,
    search_step,
)
from agents.chat.pipelines.route import route_step
from agents.core.pipeline import Branch, Pipeline, PipelineState, Step
from rag.core.errors import RAGError


def rag_pipeline() -> Pipeline:
    """Return the steps in order, each with its time and its rule for failures."""
    steps = Pipeline(
        stages=(
            *opening_stages(),
            (Step("search", search_step, "search_timeout_s", search_failed),),
            (Step("rerank", rerank_step, "rerank_timeout_s", keep_search_order),),
            (Step("generate", generate_step, "generate_timeout_s"),),
        )
    )
    return with_routing(steps)


def opening_stages() -> tuple[tuple[Step, ...], ...]:
    """Return the stages before anything is looked for: load_history, route, rewrite."""
    return (
        (Step("load_history", load_history_step, 10.0, _without_history, _has_history),),
        (Step("route", route_step, 10.0, _to_retrieval),),
        (
            Step("rewrite", rewrite_step, "rewrite_timeout_s", _as_asked, _rewrites),
            *parallel_steps(),
        ),
    )


def with_routing(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with the way from route: on to rewrite, or straight to generate."""
    return pipeline.with_branch("route", Branch(_way, ("rewrite", "generate")))


def _way(state: PipelineState) -> str:
    return "rewrite" if state.get("route", "retrieve") == "retrieve" else "generate"


def _has_history(state: PipelineState) -> bool:
    return bool(state.get("has_history"))


def _rewrites(state: PipelineState) -> bool:
    # The first question of a session leans on nothing.
    return bool(state.get("enable_rewrite") and state.get("history"))


def _without_history(state: PipelineState, error: RAGError) -> PipelineState:
    return {"history": [], "summary": ""}


def _to_retrieval(state: PipelineState, error: RAGError) -> PipelineState:
    return {"route": "retrieve"}


def _as_asked(state: PipelineState, error: RAGError) -> PipelineState:
    return {"rewritten_query": state["query"]}
