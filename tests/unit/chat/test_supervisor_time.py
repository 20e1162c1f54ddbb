"""A supervisor ends within its time, whoever hangs, and loses nothing that was answered by then."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from agents.chat.engine.plain import PlainEngine
from agents.chat.pipelines.supervisor import supervisor_pipeline
from agents.core.agent import Member, RAGAnswer
from agents.core.agent_config import AgentConfig
from agents.core.pipeline import PipelineState
from rag.core.deadline import Deadline
from rag.core.errors import ProviderTimeoutError, RAGError
from rag.core.hits import Hit
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply, Citation

QUESTION = "How often is the pump serviced, and when are seeds lent?"
HANG = 30.0


def answer_of(name: str, text: str, chunk_id: int, **more: Any) -> RAGAnswer:
    """Return what an agent answers from one passage that says just that."""
    hit = Hit(text=text, rank=1, chunk_id=chunk_id, revision=1, file_name=f"{name}.txt")
    cited = Citation(
        number=1,
        doc_id="doc_01",
        quote=text,
        verdict="verified",
        claim=text,
        chunk_id=chunk_id,
        revision=1,
    )
    told = {"outcome": "answered", "confidence": 0.8, **more}
    sources = [{**hit.as_dict(), "doc_id": "doc_01"}]
    return RAGAnswer(f"{text}[1]", [asdict(cited)], sources, **told)


@dataclass
class Team:
    """Agents by name: what each says, or for how many seconds it says nothing."""

    said: Mapping[str, RAGAnswer | float]

    @property
    def members(self) -> Sequence[Member]:
        return [Member(name, name) for name in self.said]

    async def ask(self, name: str, question: str, *_: Any) -> RAGAnswer:
        said = self.said[name]
        if isinstance(said, float):
            await asyncio.sleep(said)
            raise AssertionError("nobody waits so long")
        return said


@dataclass
class Run:
    """A run whose model answers by functions; None hangs."""

    team: Team
    config: AgentConfig
    plan: str | None = ""
    merged: str | None = None
    repaired: str | None = None
    told: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    can_write: bool = True
    model_id: str = "test:model"
    prompt: str = ""
    temperature: float = 0.0
    max_iterations: int = 3
    requests: list[ChatRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tools = SimpleNamespace(deadline=Deadline(self.config.run_timeout_s))

    async def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        self.told.append((kind, data))

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    async def load_history(self) -> Any:
        return [], ""

    async def store_facts(self, query: str) -> str:
        return ""

    async def ask(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        is_plan = request.messages[0].content.startswith("You lead a team")
        text = self.plan if is_plan else self.repaired
        try:
            async with asyncio.timeout(request.timeout_s):
                await asyncio.sleep(HANG if text is None else 0)
        except TimeoutError:
            raise ProviderTimeoutError("no answer") from None
        return ChatReply(text or "")

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        self.requests.append(request)
        if self.merged is None:
            yield ChatReply("Half an ans")
            await asyncio.sleep(HANG)
        yield ChatReply(self.merged or "")

    @property
    def text(self) -> str:
        text = ""
        for kind, data in self.told:
            text = data["text"] if kind == "replace" else text
            text += data["text"] if kind == "delta" else ""
        return text

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        return [data for one, data in self.told if one == kind]


def run_of(said: Mapping[str, RAGAnswer | float], **more: Any) -> Run:
    config = {"run_timeout_s": 0.4, **more.pop("config", {})}
    plan = json.dumps({"calls": [{"agent": name, "question": "?"} for name in said]})
    return Run(Team(said), AgentConfig.from_dict(config), **{"plan": plan, **more})


def ended(run: Run) -> tuple[PipelineState | RAGError, float]:
    """Return how the run ended, and after how many seconds."""

    async def work() -> PipelineState:
        engine = PlainEngine(supervisor_pipeline())
        lent: Any = run
        return await engine.run({"query": QUESTION}, lent)

    started = time.monotonic()
    try:
        return asyncio.run(work()), time.monotonic() - started
    except RAGError as error:
        return error, time.monotonic() - started


def state_of(run: Run, within_s: float) -> PipelineState:
    end, spent_s = ended(run)
    assert isinstance(end, dict), end
    assert spent_s < within_s
    return end


PUMP = answer_of("pumps", "Every 30 days.", 11)
SEEDS = answer_of("plants", "Until November.", 22)
Said = Callable[..., Any]


@pytest.mark.parametrize("n_agents", [1, 2, 4])
def test_where_everybody_hangs_it_is_an_error_in_time(n_agents: int) -> None:
    run = run_of({f"a{n}": HANG for n in range(n_agents)}, plan=None)
    error, spent_s = ended(run)
    assert isinstance(error, ProviderTimeoutError) and "did not answer in time" in str(error)
    assert spent_s < 1.0, "the run's time bounds all of its steps together"
    # Who was chosen had most of it, though choosing took as long as it might.
    (called, *_) = run.of("agent_result")
    assert called["duration_ms"] > 200


def test_who_answered_is_heard_though_another_hangs() -> None:
    run = run_of({"pumps": PUMP, "plants": HANG})
    end = state_of(run, within_s=0.4)
    assert end["final_answer"] == run.text == "Every 30 days.[1]"
    assert (end["outcome"], end["confidence"]) == ("answered", 0.8)
    assert [one["is_error"] for one in run.of("agent_result")] == [False, True]


def test_answers_that_nobody_merges_in_time_are_told_as_they_were_given() -> None:
    run = run_of({"pumps": PUMP, "plants": SEEDS})
    end = state_of(run, within_s=1.0)
    assert run.text == "**pumps**\n\nEvery 30 days.[1]\n\n**plants**\n\nUntil November.[2]"
    assert end["final_answer"] == run.text and end["outcome"] == "answered"
    (notice,) = run.of("notice")
    assert notice["step"] == "merge" and "did not answer within" in notice["error"]["message"]
    assert {"text": "", "citations": []} in run.of("replace"), "half an answer is taken back"


def test_a_merge_longer_than_an_answer_may_take_is_not_waited_for() -> None:
    run = run_of(
        {"pumps": PUMP, "plants": SEEDS}, config={"run_timeout_s": 30, "generate_timeout_s": 0.1}
    )
    state_of(run, within_s=2.0)
    assert "**plants**\n\nUntil November.[2]" in run.text


def test_a_repair_that_hangs_costs_no_answer() -> None:
    merged = '<cite doc_id="doc_01" quote="Never.">Never</cite> <cite doc_id="doc_02" quote="x"/>'
    run = run_of(
        {"pumps": PUMP, "plants": SEEDS}, merged=merged, config={"citation_failure": "repair"}
    )
    end = state_of(run, within_s=1.0)
    assert end["final_answer"].startswith("Never[1]") and end["outcome"] == "ungrounded"
    assert run.of("notice")[-1]["step"] == "repair"


def test_a_run_without_time_says_so_and_not_that_there_is_nobody() -> None:
    run = run_of({"pumps": PUMP})
    run.tools.deadline = Deadline(0)
    error, _ = ended(run)
    assert str(error) == ("There was no time left to ask an agent. Allow more by run_timeout_s.")
    nobody = run_of({})
    assert state_of(nobody, 1.0)["final_answer"] == "There is no agent that could answer this."


def test_one_answer_of_several_keeps_what_came_of_it() -> None:
    remembered = answer_of("pumps", "Yours is an HX.", 11, outcome="remembered", confidence=None)
    nothing = answer_of("plants", "I do not know.", 22, outcome="not_found")
    end = state_of(run_of({"pumps": remembered, "plants": nothing}), 1.0)
    assert (end["outcome"], end["confidence"]) == ("remembered", None)


def test_what_is_cited_beyond_the_budget_keeps_a_document_of_its_own() -> None:
    long = [
        answer_of(name, " ".join([name] * 60), number)
        for number, name in enumerate(("a", "b", "c"), start=1)
    ]
    run = run_of(
        dict(zip("abc", long, strict=True)), can_write=False, config={"context_tokens": 100}
    )
    run.plan, run.max_iterations = None, 1
    # Without a model one is asked a round, so the answers are given as three orders would.
    run.can_write = True
    run.plan = json.dumps({"calls": [{"agent": name, "question": "?"} for name in "abc"]})
    end = state_of(run, 1.0)
    (sources,) = (one["sources"] for one in run.of("sources"))
    by_id = {one["doc_id"]: one["chunk_id"] for one in sources}
    assert len(by_id) == len(sources) == 3
    assert [(one["number"], by_id[one["doc_id"]]) for one in end["citations"]] == [
        (1, 1),
        (2, 2),
        (3, 3),
    ]
