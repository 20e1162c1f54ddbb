"""The pipeline of a supervisor: who is asked, what they say, and one answer made of it."""

from __future__ import annotations

from agents.core.pipeline import END, Branch, Pipeline, PipelineState, Step
from agents.nodes.pipeline import first_stages, routed
from agents.nodes.pipeline_generate import generate
from agents.nodes.react_pipeline import BY_DEADLINE_S
from agents.nodes.supervisor_ask import ANSWERED, ask
from agents.nodes.supervisor_merge import merge
from agents.nodes.supervisor_plan import plan


def supervisor_pipeline() -> Pipeline:
    """Return the steps in order; agents are asked in rounds until one has answered.

    All of it ends within the config's run_timeout_s, or the first steps' own times if longer.
    """
    steps = Pipeline(
        stages=(
            *first_stages(),
            (Step("plan", plan, BY_DEADLINE_S),),
            (Step("ask", ask, BY_DEADLINE_S),),
            (Step("merge", merge, BY_DEADLINE_S),),
            (Step("generate", generate, "generate_timeout_s"),),
        )
    )
    return (
        routed(steps)
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
