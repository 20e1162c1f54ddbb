"""What an agent has written stands, however long a repair of its quotes would take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from agents.chat.engine.plain import PlainEngine
from agents.chat.pipelines.rag import rag_pipeline
from agents.chat.pipelines.react import BACKSTOP_TIMEOUT_S, react_pipeline
from agents.core.agent_config import AgentConfig
from agents.core.pipeline import Pipeline, PipelineState
from rag.core.deadline import Deadline
from rag.core.hits import Hit
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply, Message
from rag.stages.prompting.context import Passage
from tests.unit.chat.test_supervisor_time import HANG, Run, Team

WRONG = '<cite doc_id="doc_01" quote="Every year.">Yearly</cite>.'
HIT = Hit(text="The pump is serviced every 30 days.", rank=1, chunk_id=1, revision=1)


class Loop(Run):
    """A run whose model answers at once, the turns' texts in order; None hangs."""

    def __init__(self, **config: Any) -> None:
        settings = {"citation_failure": "repair", "min_confidence_score": 0.0, **config}
        super().__init__(Team({}), AgentConfig.from_dict(settings), repaired=None)
        self.turns: list[str | None] = [WRONG]
        self.tools = SimpleNamespace(
            deadline=Deadline(self.config.run_timeout_s),
            specs=(),
            calling="text",
            searches_stores=True,
            learn=lambda calling: None,
        )

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        self.requests.append(request)
        text = self.turns.pop(0)
        await asyncio.sleep(HANG if text is None else 0)
        yield ChatReply(text or "")


def ended(run: Loop, step: str) -> tuple[PipelineState, float]:
    """Return how a run ends that begins with a step, and after how many seconds."""
    whole = react_pipeline()
    rest = Pipeline(
        whole.stages[whole.stage_of(step) :],
        {name: way for name, way in whole.branches.items() if name in ("think", "act", "answer")},
    )
    state: PipelineState = {
        "query": "How often is the pump serviced?",
        "confidence": 1.0,
        "limit": "",
        "agent_scratchpad": [Message("system", "s"), Message("user", "?")],
        "passages": [Passage("doc_01", HIT, HIT.text)],
    }
    lent: Any = run
    started = time.monotonic()
    end = asyncio.run(PlainEngine(rest).run(state, lent))
    return end, time.monotonic() - started


@pytest.mark.parametrize(
    ("step", "config"),
    [("think", {"run_timeout_s": 0.3}), ("answer", {"generate_timeout_s": 0.3})],
)
def test_a_repair_that_hangs_costs_no_answer(step: str, config: Any) -> None:
    run = Loop(**config)
    end, spent_s = ended(run, step)
    assert end["final_answer"] == run.text == "Yearly[1]." and end["outcome"] == "ungrounded"
    assert [one["verdict"] for one in end["citations"]] != ["verified"]
    (notice,) = run.of("notice")
    assert notice["step"] == "repair" and spent_s < 1.0


def test_a_thought_cut_by_the_runs_time_is_followed_by_an_answer() -> None:
    run = Loop(run_timeout_s=0.1, citation_failure="mark")
    run.turns = [None, WRONG]
    end, spent_s = ended(run, "think")
    assert end["final_answer"].startswith("(The time is used up") and end["outcome"] == "ungrounded"
    assert spent_s < 1.0


def test_steps_that_heed_the_deadline_have_no_limit_at_the_same_moment() -> None:
    limits = {step.name: step.timeout for stage in react_pipeline().stages for step in stage}
    most_s = AgentConfig.from_dict({"run_timeout_s": 900}).run_timeout_s
    assert limits["think"] == limits["act"] == BACKSTOP_TIMEOUT_S > most_s


def test_a_repair_that_hangs_costs_no_rag_answer() -> None:
    run: Any = Loop(generate_timeout_s=0.3)
    whole = rag_pipeline()
    state: PipelineState = {
        "query": "How often is the pump serviced?",
        "confidence": 1.0,
        "reranked_results": [HIT],
    }
    last = Pipeline(whole.stages[whole.stage_of("generate") :])
    end = asyncio.run(PlainEngine(last).run(state, run))
    assert end["final_answer"] == run.text == "Yearly[1]." and end["outcome"] == "ungrounded"
    assert [notice["step"] for notice in run.of("notice")] == ["repair"]
