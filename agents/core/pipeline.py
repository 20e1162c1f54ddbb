"""Pipeline of an agent: state, steps and branches, the context steps run in, how these are run.

Knows no engine.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from agents.core.state import Turn
from rag.core import metrics
from rag.core.errors import ConfigurationError, ProviderTimeoutError, RAGError, UnknownNameError

if TYPE_CHECKING:
    from agents.core.agent import Team
    from agents.core.agent_config import AgentConfig
    from agents.core.page_context import PageRead
    from agents.core.react import Tools
    from agents.core.recalled_memory import RecalledMemory
    from rag.core.analysis import Answerability
    from rag.core.hits import Hit
    from rag.core.ports import ChatRequest
    from rag.core.types import ChatReply, Message, ToolUse
    from rag.stages.prompting.context import Passage

END = "END"
log = logging.getLogger(__name__)


class PipelineState(TypedDict, total=False):
    """What flows through the pipeline; a step returns the fields that it changes.

    ``route`` says how the question is answered: retrieve, small_talk, about_store or
    about_conversation (from the answers before). ``outcome`` says what came of it: answered,
    partial (a limit was met), not_found (nothing sure, or nothing about it), unavailable,
    small_talk, about_store or remembered (from what the person told). ``memories`` and
    ``page_context`` are texts that go into the prompt as data, ``page_hits`` what the page sends
    along to be cited; ``has_history``, ``has_memory`` and ``has_page`` say whether there is any to
    be read.
    ``is_lookup``: the results are those of a document, page or section that the question names.

    In a loop of tools ``agent_scratchpad`` is what the model has been told and said, ``wanted``
    the calls that it waits for, ``tool_calls`` those that were made, ``passages`` what they found,
    by document id, ``tool_passages`` what they worked out without finding any, and ``limit`` the
    one that was met. A supervisor has in ``orders`` which agents are asked next, and in
    ``answers`` what they said. ``grounding`` is what the sources say of the answer's statements.
    """

    query: str
    history: list[Turn]
    summary: str
    rewritten_query: str
    search_results: list[Hit]
    reranked_results: list[Hit]
    final_answer: str
    enable_rewrite: bool
    enable_rerank: bool
    top_k: int
    vector_threshold: float
    route: str
    search_error: dict[str, Any] | None
    confidence: float | None
    is_lookup: bool
    answerability: Answerability | None
    facts: str
    outcome: str
    citations: list[dict[str, Any]]
    grounding: dict[str, Any]
    memories: str
    page_context: str
    page_hits: list[Hit]
    has_history: bool
    has_memory: bool
    has_page: bool
    complexity: str
    agent_scratchpad: list[Message]
    wanted: list[ToolUse]
    tool_calls: list[dict[str, Any]]
    passages: list[Passage]
    tool_passages: list[Passage]
    should_continue: bool
    n_iterations: int
    spent_tokens: int
    limit: str
    orders: list[dict[str, str]]
    cannot_plan: bool
    answers: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class FoundHits:
    """What a search brought: hits above the thresholds, how sure it is (0 to 1), decisions.

    ``answerability`` says whether the hits can answer the question, None where nothing can be told.
    """

    hits: Sequence[Hit]
    confidence: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    answerability: Answerability | None = None


@dataclass(frozen=True, slots=True)
class RerankedHits:
    """Hits ranked again, by whom, and how sure that one is of the best (None: does not say)."""

    hits: Sequence[Hit]
    method: str
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class CitedQuote:
    """A quote of an earlier answer that its source holds, with that source as it is now."""

    hit: Hit
    text: str


@dataclass(frozen=True, slots=True)
class EarlierAnswer:
    """An answer of the same conversation, its question, and what it rests on."""

    question: str
    text: str
    quotes: Sequence[CitedQuote] = ()


class PipelineRun(Protocol):
    """Context of one pipeline run, as its steps use it."""

    config: AgentConfig
    prompt: str
    temperature: float
    max_iterations: int
    tools: Tools
    team: Team

    @property
    def model_id(self) -> str:
        """Return the model as ``provider:model``."""

    @property
    def can_write(self) -> bool:
        """Return False where the model only quotes: it rewrites nothing."""

    @property
    def can_rank(self) -> bool:
        """Return whether anybody can rank as the config wants."""

    @property
    def emit(self) -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
        """Return what tells whoever watches: a kind of event and JSON."""

    def count_tokens(self, text: str) -> int:
        """Return the tokens of a text, as a chat model counts them."""

    async def load_history(self) -> tuple[list[Turn], str]:
        """Return the turns before this question, oldest first, and a summary of what was before."""

    async def earlier_answers(self, n: int) -> Sequence[EarlierAnswer]:
        """Return the last ``n`` answers with their quotes, none where no rows hold them."""

    async def search(self, query: str, top_k: int) -> FoundHits:
        """Search with the rights of who asks; raise RAGError."""

    async def recall(self, query: str) -> Sequence[RecalledMemory]:
        """Return memories of who asks that bear on a query; raise RAGError."""

    async def read_page(self, query: str) -> PageRead:
        """Return what the page sends along, read for a query."""

    async def rerank(self, query: str, hits: Sequence[Hit]) -> RerankedHits:
        """Rank hits again as the config says; raise RAGError when nobody could."""

    async def store_facts(self, query: str) -> str:
        """Return what the database says of the stores, empty when it is not asked for that."""

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Return a whole answer that nobody is shown; raise ProviderError."""

    def stream(self, request: ChatRequest) -> AsyncGenerator[ChatReply, None]:
        """Yield an answer as it comes; raise ProviderError."""


StepFunction = Callable[[PipelineState, PipelineRun], Awaitable[PipelineState]]
Fallback = Callable[[PipelineState, RAGError], PipelineState]


def always(state: PipelineState) -> bool:
    """Say that a step is on, whatever the state is."""
    return True


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it does, whether it is on, how long it may take, what happens if it fails.

    ``timeout`` names a value of the config in seconds, or is one. Without ``fallback`` a failure
    ends the run as an error.
    """

    name: str
    run: StepFunction
    timeout: str | float = 30.0
    fallback: Fallback | None = None
    is_on: Callable[[PipelineState], bool] = always


@dataclass(frozen=True, slots=True)
class Branch:
    """After a stage: ``choose`` names the step to go on with, of ``targets`` (or END)."""

    choose: Callable[[PipelineState], str]
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Stages one after another; the steps of one stage run side by side. Never changed in place.

    Steps that run side by side write different fields.
    """

    stages: tuple[tuple[Step, ...], ...] = ()
    branches: Mapping[str, Branch] = field(default_factory=dict)

    def with_step(self, *steps: Step, after: str = "") -> Pipeline:
        """Return a pipeline with a stage more, behind the step ``after`` or at the start.

        Several steps run side by side. Raises UnknownNameError and, for a name that is taken,
        ConfigurationError.
        """
        for step in steps:
            if step.name in self.names:
                raise ConfigurationError(
                    "The pipeline has a step “{name}” already.", hint="Rename one.", name=step.name
                )
        place = self.stage_of(after) + 1 if after else 0
        return replace(self, stages=(*self.stages[:place], steps, *self.stages[place:]))

    def with_branch(self, after: str, branch: Branch) -> Pipeline:
        """Return a pipeline that goes on behind ``after`` where ``branch`` says.

        Raises UnknownNameError for a step that is not there.
        """
        self.stage_of(after)
        for target in branch.targets:
            if target != END:
                self.stage_of(target)
        return replace(self, branches={**self.branches, after: branch})

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all steps, in order."""
        return tuple(step.name for stage in self.stages for step in stage)

    def stage_of(self, name: str) -> int:
        """Return the number of the stage that a step is in; raise UnknownNameError."""
        for number, stage in enumerate(self.stages):
            if any(step.name == name for step in stage):
                return number
        raise UnknownNameError("step", name, self.names)

    def branch_after(self, number: int) -> Branch | None:
        """Return the branch behind a stage, None where the next one follows."""
        return next(
            (self.branches[s.name] for s in self.stages[number] if s.name in self.branches), None
        )

    def possible_next(self, number: int) -> list[int]:
        """Return the stages that may follow a stage, in order; -1 is before the first."""
        branch = self.branch_after(number) if number >= 0 else None
        found = set[int]()
        for target in map(self._target, branch.targets) if branch else [number + 1]:
            found.add(target)
            while self._may_be_off(target):
                target += 1
                found.add(target)
        return sorted(found)

    def is_decided(self, number: int) -> bool:
        """Return whether it hangs on the state what follows a stage."""
        has_branch = number >= 0 and self.branch_after(number) is not None
        return has_branch or len(self.possible_next(number)) > 1

    def next_stage(self, number: int, state: PipelineState) -> int:
        """Return the stage that follows a stage; those whose steps are all off are passed over.

        Raises UnknownNameError for a branch that chooses what is none of its targets.
        """
        target = number + 1
        if number >= 0 and (branch := self.branch_after(number)):
            chosen = branch.choose(state)
            if chosen not in branch.targets:
                raise UnknownNameError("target of a branch", chosen, branch.targets)
            target = self._target(chosen)
        while self._may_be_off(target) and not any(s.is_on(state) for s in self.stages[target]):
            target += 1
        return target

    def _target(self, name: str) -> int:
        return len(self.stages) if name == END else self.stage_of(name)

    def _may_be_off(self, number: int) -> bool:
        # Behind a branch's own stage the branch decides, so that one is never passed over.
        stages = self.stages[number : number + 1]
        is_passable = stages and self.branch_after(number) is None
        return bool(is_passable) and all(step.is_on is not always for step in stages[0])


async def run_stage(
    stage: tuple[Step, ...], state: PipelineState, run: PipelineRun
) -> PipelineState:
    """Return what the steps of a stage change, run side by side; when one fails the rest end."""
    steps = [step for step in stage if step.is_on(state)]
    if len(steps) == 1:
        return await run_step(steps[0], state, run)
    tasks = [asyncio.create_task(run_step(step, state, run)) for step in steps]
    changed: PipelineState = {}
    try:
        for update in await asyncio.gather(*tasks):
            changed |= update
    finally:
        for task in tasks:
            task.cancel()
    return changed


async def run_step(step: Step, state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return what a step changes, or what its fallback says; tell how long it took.

    A step that is switched off changes nothing. Raises RAGError where no fallback is.
    """
    if not step.is_on(state):
        return {}
    started = time.perf_counter()
    outcome, told = "stopped", dict[str, Any]()
    try:
        with metrics.span(f"step {step.name}"):
            update = await _in_time(step, state, run)
        outcome = "ok"
        told = {"route": update["route"]} if "route" in update else {}
        return update
    except RAGError as error:
        outcome = "failed"
        if step.fallback is None:
            raise
        log.warning("the step %s goes on without: %s", step.name, error)
        update = step.fallback(state, error)
        await run.emit("notice", {"step": step.name, "error": error.as_dict()})
        return update
    finally:
        spent_ms = round((time.perf_counter() - started) * 1e3, 1)
        log.info("step %s: %s in %s ms", step.name, outcome, spent_ms)
        metrics.observe("step", spent_ms / 1e3, step=step.name, outcome=outcome)
        facts = {"step": step.name, "outcome": outcome, "duration_ms": spent_ms}
        await run.emit("step", {**facts, **told})


async def _in_time(step: Step, state: PipelineState, run: PipelineRun) -> PipelineState:
    timeout_s: float = (
        getattr(run.config, step.timeout) if isinstance(step.timeout, str) else step.timeout
    )
    try:
        async with asyncio.timeout(timeout_s):
            return await step.run(state, run)
    except TimeoutError:
        raise ProviderTimeoutError(
            "The step “{name}” took longer than {timeout_s} s.",
            hint="Try again, or allow the agent more time.",
            name=step.name,
            timeout_s=f"{timeout_s:g}",
        ) from None
