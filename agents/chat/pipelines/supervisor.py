"""Supervisor pipeline: plan, ask agents, merge their answers."""

from __future__ import annotations

from agents.chat.pipelines.generate_answer import generate_step
from agents.chat.pipelines.rag import opening_stages, with_routing
from agents.chat.pipelines.react import BACKSTOP_TIMEOUT_S
from agents.chat.pipelines.supervisor_merge import ANSWERED, ask_agents_step, merge_step
from agents.chat.pipelines.supervisor_plan import plan_step
from agents.core.pipeline import END, Branch, Pipeline, PipelineState, Step


def supervisor_pipeline() -> Pipeline:
    """Return the steps in order; agents are asked in rounds until one has answered.

    All of it ends within the config's run_timeout_s, or the first steps' own times if longer.
    """
    steps = Pipeline(
        stages=(
            *opening_stages(),
            (Step("plan", plan_step, BACKSTOP_TIMEOUT_S),),
            (Step("ask", ask_agents_step, BACKSTOP_TIMEOUT_S),),
            (Step("merge", merge_step, BACKSTOP_TIMEOUT_S),),
            (Step("generate", generate_step, "generate_timeout_s"),),
        )
    )
    return (
        with_routing(steps)
        .with_branch("plan", Branch(_after_planning, ("ask", "merge")))
        .with_branch("ask", Branch(_after_asking, ("plan", "merge", END)))
        .with_branch("merge", Branch(lambda state: END, (END,)))
    )


def _after_planning(state: PipelineState) -> str:
    return "ask" if state.get("orders") else "merge"


def _after_asking(state: PipelineState) -> str:
    if state.get("outcome"):
        return END
    answers = state.get("answers") or []
    return "merge" if any(one["outcome"] in ANSWERED for one in answers) else "plan"
