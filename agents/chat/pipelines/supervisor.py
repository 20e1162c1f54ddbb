"""The pipeline of a supervisor: who is asked, what they say, and one answer made of it."""

from __future__ import annotations

from agents.chat.pipelines.generate import generate
from agents.chat.pipelines.rag import first_stages, routed
from agents.chat.pipelines.react import BY_DEADLINE_S
from agents.chat.pipelines.supervisor_merge import ANSWERED, ask, merge
from agents.chat.pipelines.supervisor_plan import plan
from agents.core.pipeline import END, Branch, Pipeline, PipelineState, Step


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
