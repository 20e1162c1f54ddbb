"""ReAct agent pipeline: as a rag agent up to its search, then a loop of Think and Act.

A simple question that the search answers surely takes the fast path: no loop, one answer.
"""

from __future__ import annotations

from agents.chat.pipelines.generate_answer import generate_step
from agents.chat.pipelines.rag import opening_stages, with_routing
from agents.chat.pipelines.react_act import act_step
from agents.chat.pipelines.react_think import answer_step, think_step
from agents.chat.pipelines.retrieve import (
    keep_search_order,
    rerank_step,
    search_failed,
    search_step,
)
from agents.core.pipeline import END, Branch, Pipeline, PipelineRun, PipelineState, Step

# Steps that end with the run's deadline by themselves, and then tell what they have: a limit of
# their own at the same moment would take that with it. It is for what does not heed the deadline.
BACKSTOP_TIMEOUT_S = 960.0


def react_pipeline() -> Pipeline:
    """Return the steps in order, each with its time and its rule for failures."""
    steps = Pipeline(
        stages=(
            *opening_stages(),
            (Step("look", first_search_step, "search_timeout_s", search_failed),),
            (Step("rerank", rerank_step, "rerank_timeout_s", keep_search_order),),
            (Step("decide", fast_path_step, 1.0),),
            (Step("think", think_step, BACKSTOP_TIMEOUT_S),),
            (Step("act", act_step, BACKSTOP_TIMEOUT_S),),
            (Step("answer", answer_step, "generate_timeout_s"),),
            (Step("generate", generate_step, "generate_timeout_s"),),
        )
    )
    return (
        with_routing(steps)
        .with_branch("decide", Branch(_fast_or_not, ("think", "generate")))
        .with_branch("think", Branch(_after_thinking, ("act", "answer", END)))
        .with_branch("act", Branch(_after_acting, ("think", "answer")))
        .with_branch("answer", Branch(lambda state: END, (END,)))
    )


async def first_search_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return what a first search finds, nothing for an agent that searches no stores."""
    return await search_step(state, run) if run.tools.searches_stores else {}


async def fast_path_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return as ``should_continue`` whether the loop is needed.

    It is not where the question is simple, the search sure and no tool could know better, or where
    the model only quotes.
    """
    is_sure = (state.get("confidence") or 0.0) >= run.config.fast_path_confidence
    is_easy = state.get("complexity") == "simple" and is_sure and not run.tools.knows_more
    is_fast = run.config.enable_fast_path and is_easy and bool(state.get("reranked_results"))
    return {"should_continue": run.can_write and not is_fast}


def _fast_or_not(state: PipelineState) -> str:
    return "think" if state.get("should_continue") else "generate"


def _after_thinking(state: PipelineState) -> str:
    if state.get("wanted"):
        return "act"
    return END if state.get("outcome") else "answer"


def _after_acting(state: PipelineState) -> str:
    return "answer" if state.get("limit") else "think"
