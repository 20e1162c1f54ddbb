"""The pipeline of a rag agent: LoadHistory, Route, Rewrite, Search, Rerank, Generate.

A step more is one line: ``rag_pipeline().with_step(Step("glossary", glossary), after="search")``;
steps side by side and branches likewise. See ``agents.core.pipeline``.
"""

from __future__ import annotations

from agents.core.pipeline import Branch, Pipeline, PipelineState, Step
from agents.nodes.pipeline_beside import beside_steps
from agents.nodes.pipeline_generate import generate
from agents.nodes.pipeline_history import load_history
from agents.nodes.pipeline_rerank import as_found, rerank
from agents.nodes.pipeline_rewrite import rewrite
from agents.nodes.pipeline_route import route
from agents.nodes.pipeline_search import search, without_results
from rag.core.errors import RAGError


def rag_pipeline() -> Pipeline:
    """Return the steps in order, each with its time and its rule for failures."""
    steps = Pipeline(
        stages=(
            *first_stages(),
            (Step("search", search, "search_timeout_s", without_results),),
            (Step("rerank", rerank, "rerank_timeout_s", as_found),),
            (Step("generate", generate, "generate_timeout_s"),),
        )
    )
    return routed(steps)


def first_stages() -> tuple[tuple[Step, ...], ...]:
    """Return the stages before anything is looked for: load_history, route, rewrite."""
    return (
        (Step("load_history", load_history, 10.0, _without_history, _has_history),),
        (Step("route", route, 10.0, _to_retrieval),),
        (Step("rewrite", rewrite, "rewrite_timeout_s", _as_asked, _rewrites), *beside_steps()),
    )


def routed(pipeline: Pipeline) -> Pipeline:
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
