"""Dry run of a flow's cases: scripted models and stubbed sources, nothing is stored.

``cases.yaml`` beside a flow holds ``cases`` and perhaps ``answers``, ``script`` (a file with
answers) and ``default``, as scripted models take them. A case has a message and may have state,
sources (their results by name, or ``error``; those of tools and ``rag_files`` nodes too), decisions
(by node; a list has one for each visit), answers of its own, and what it expects: route, status,
variables, answer (a part of it), error (a part of it).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from asgiref.sync import async_to_sync
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.core.cited_answers import RunPassages
from agents.core.nodes import FileQuery, FlowOutcome, HttpCall, Pause, SourceQueries
from agents.core.source_configs import McpServerConfig
from agents.core.spoken_text import SpokenText
from agents.flows.definition.archive import read_flow_folder, read_flow_text_file
from agents.flows.definition.definition import Flow
from agents.flows.definition.state import initial_state, node_outputs
from agents.flows.engine.inner_log import InnerLog, RunPlace, outputs_at
from agents.flows.versions.load import compiled_graph_of_files
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError, NotFoundError, ProviderError, RAGError
from rag.core.hits import Hit
from rag.core.plugins import PLUGINS
from rag.core.ports import ChatModel, ChatRequest
from rag.core.tools import ToolSpec, spec_of
from rag.core.types import ChatReply
from rag.services.sources import SourceCall, SourceOutcome
from rag.services.tokens import count_tokens
from rag.services.wiring.registry import model_of_script
from rag.stages.citing.verify import VerifiedAnswer
from rag.stages.text.yaml_positions import parse_yaml

if TYPE_CHECKING:
    from agents.flows.engine.graph import FlowGraph


CASES_FILE = "cases.yaml"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ExpectedOutcome(_Strict):
    """What a case must come to; only what is given is compared."""

    route: list[str] | None = None
    status: Literal["done", "paused", "error"] = "done"
    variables: dict[str, Any] = {}
    answer: str = ""
    error: str = ""


class CaseDecision(_Strict):
    """What somebody decides, says and edits."""

    decision: str
    comment: str = ""
    values: dict[str, Any] = {}


class FlowCase(_Strict):
    """One message with all that the flow would be told from outside."""

    name: str
    message: str
    state: dict[str, Any] = {}
    sources: dict[str, Any] = {}
    decisions: dict[str, str | CaseDecision | list[str | CaseDecision]] = {}
    answers: list[dict[str, Any]] = []
    expect: ExpectedOutcome = ExpectedOutcome()


class FlowCaseFile(_Strict):
    """All cases; ``answers`` are those of every case, after its own."""

    cases: list[FlowCase] = Field(min_length=1, max_length=1000)
    answers: list[dict[str, Any]] = []
    script: str = ""
    default: Any = None


def read_cases(path: Path) -> FlowCaseFile:
    """Return the cases of a flow's folder, or of the folder around its YAML, script included.

    Raises NotFoundError without cases, InvalidInputError for wrong ones, with their place.
    """
    folder = path if path.is_dir() else path.parent
    file = folder / CASES_FILE
    if not file.is_file():
        raise NotFoundError("There are no cases at “{path}”.", path=file)
    located = parse_yaml(read_flow_text_file(file), name=CASES_FILE)
    try:
        found = FlowCaseFile.model_validate(located.data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise located.mistake(CASES_FILE, first["loc"], reason) from None
    return _with_script(found, folder) if found.script else found


def _with_script(found: FlowCaseFile, folder: Path) -> FlowCaseFile:
    file = folder / found.script
    if not file.is_file():
        raise NotFoundError("There is no script at “{path}”.", path=file)
    data = parse_yaml(read_flow_text_file(file), name=found.script).data
    if not isinstance(data, dict) or not isinstance(data.get("answers", []), list):
        raise InvalidInputError(
            "The script “{name}” is wrong: {reason}.",
            name=found.script,
            reason="it must hold answers and perhaps default",
        )
    default = found.default if found.default is not None else data.get("default")
    answers = [*found.answers, *data.get("answers", [])]
    return found.model_copy(update={"answers": answers, "default": default})


def stub_outcome(call: SourceCall, given: Any) -> SourceOutcome:
    """Return ``given`` as what the source answered: texts or chunks, rows, or ``{error: text}``.

    None, that is nothing given, is a failure too.
    """
    if error := stub_error(call.name, given):
        return SourceOutcome.failed(call, error)
    items = given if isinstance(given, list) else [given]
    hits = tuple(_hit(item, rank) for rank, item in enumerate(items, 1))
    return SourceOutcome(
        name=call.name, plugin=call.plugin, status="ok" if hits else "empty", hits=hits
    )


def stub_error(name: str, given: Any) -> RAGError | None:
    """Return the failure that a case gives under a name; nothing given is one, too."""
    if given is None:
        return NotFoundError("The case has no result of “{name}”.", name=name)
    if isinstance(given, dict) and given.keys() == {"error"}:
        return ProviderError("The source fails: {reason}", reason=given["error"])
    return None


def stub_files(node: str, given: Any) -> dict[str, Any]:
    """Return ``given`` as what a node that asks files gives; raise where it is an error or None."""
    if error := stub_error(node, given):
        raise error
    texts = given if isinstance(given, list) else [given]
    output = dict(given) if isinstance(given, dict) else {"documents": [str(one) for one in texts]}
    output.setdefault("documents", [])
    output.setdefault("answer", "\n".join(output["documents"]))
    return {"query": "", "mode": "fileSearch", "documentCount": len(output["documents"]), **output}


def _hit(item: Any, rank: int) -> Hit:
    if not isinstance(item, dict):
        return Hit(text=str(item), rank=rank)
    if isinstance(item.get("content"), str):
        metadata = dict(item.get("metadata") or {})
        name = str(metadata.pop("source", ""))
        page = metadata.pop("page", None)
        return Hit(
            text=item["content"],
            rank=rank,
            score=item.get("score"),
            file_name=name,
            page_first=page,
            metadata=metadata,
        )
    return Hit(text="", rank=rank, data=item)


class DryRunLog:
    """``agents.core.nodes.RunLog`` in memory; ``route`` is the nodes that ran, in order."""

    def __init__(self, flow: Flow, case: FlowCase, model: ChatModel) -> None:
        self.route: list[str] = []
        self.updates: dict[tuple[str, int], dict[str, Any]] = {}
        self.model, self.case = model, case
        self.deadline = Deadline(flow.definition.timeout_s)
        self.prompts = flow.prompts
        self.passages = RunPassages()

    def recorded(self, node: str, visit: int) -> Mapping[str, Any] | None:
        """Return None: a case has no past."""
        return None

    def node_run(self, node: str, visit: int) -> DryRun:
        """Return what a node is lent: the case's own results, answers and decisions."""
        return self.lend(RunPlace(), node, visit)

    def lend(self, place: RunPlace, node: str, visit: int) -> DryRun:
        """Return the same for a node inside another."""
        return DryRun(self, node, visit, place)

    async def started(self, node: str, visit: int) -> None:
        """Note the node."""
        # What runs inside of another is that one's affair.
        if "." not in node:
            self.route.append(node)

    async def finished(self, node: str, visit: int, update: Mapping[str, Any]) -> None:
        """Keep what templates may ask for."""
        self.updates[node, visit] = dict(update)

    async def routed(
        self, node: str, visit: int, route: Mapping[str, Any], tests: Sequence[Mapping[str, Any]]
    ) -> None:
        """Keep nothing."""

    async def paused(self, node: str, visit: int, pause: Pause) -> None:
        """Keep nothing."""

    async def failed(self, node: str, visit: int) -> None:
        """Keep nothing."""


def _decision(case: FlowCase, node: str, visit: int) -> CaseDecision | None:
    """Return what is decided at a visit: of a list one after the other, then nothing more."""
    decided = case.decisions.get(node)
    if isinstance(decided, list):
        decided = decided[visit - 1] if visit <= len(decided) else None
    return CaseDecision(decision=decided) if isinstance(decided, str) else decided


class DryRun:
    """``agents.core.nodes.NodeRun`` for a case."""

    scope = Scope.operator()

    def __init__(self, log: DryRunLog, node: str, visit: int, place: RunPlace) -> None:
        self._log, self._place, self._visit = log, place, visit
        self.node, self.deadline, self.prompts = node, log.deadline, log.prompts
        decided = _decision(log.case, place.prefix + node, visit)
        self.decision = decided.decision if decided else None
        self.comment = decided.comment if decided else ""
        self.edited: Mapping[str, Any] = decided.values if decided else {}
        self.passages = log.passages

    def count_tokens(self, text: str) -> int:
        """Return the number of o200k tokens."""
        return count_tokens(text)

    async def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        """Tell nobody."""

    def model_id(self, name: str) -> str:
        """Return the script's name."""
        return self._log.model.id

    async def takes_tools(self, name: str) -> bool:
        """Return False: scripts say calls in words."""
        return False

    async def ask_model(
        self, name: str, request: ChatRequest, spoken: SpokenText | None = None
    ) -> ChatReply:
        """Return what the script says."""
        reply = await asyncio.to_thread(self._log.model.generate, request)
        if spoken:
            spoken.take(reply.text)
        return reply

    def keep_verdicts(self, answer: VerifiedAnswer) -> None:
        """Keep nothing."""

    async def ask_sources(self, asked: SourceQueries) -> list[SourceOutcome]:
        """Return the case's results; a source that the case does not name is a failed one."""
        return [stub_outcome(call, self._log.case.sources.get(call.name)) for call in asked.calls]

    async def ask_files(self, asked: FileQuery) -> dict[str, Any]:
        """Return what the case gives under the node's name: a whole output, texts, or an error."""
        return stub_files(self.node, self._log.case.sources.get(self.node))

    async def fetch(self, call: HttpCall) -> dict[str, Any]:
        """Return the body that the case gives under the node's name, or its error."""
        found = self._log.case.sources.get(self.node)
        if error := stub_error(self.node, found):
            raise error
        return {"status": 200, "content_type": "application/json", "body": found}

    def outputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what each node has given so far."""
        return node_outputs(outputs_at(self._place, self._log.updates))

    def inside(self) -> InnerLog:
        """Return the log of what the node runs."""
        return InnerLog(self._log, self._place.inside(self.node, self._visit))

    async def run_flow(
        self, name: str, message: str, given: Mapping[str, Any], state: Mapping[str, Any]
    ) -> FlowOutcome | None:
        """Return what the case gives under the node's name: an answer, or it with variables."""
        found = self._log.case.sources.get(self.node)
        if error := stub_error(self.node, found):
            raise error
        told = found if isinstance(found, dict) else {"answer": found}
        rest = {key: one for key, one in told.items() if key != "answer"}
        return FlowOutcome(str(told.get("answer") or ""), rest)

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result that the case gives under the tool's name."""
        found = self._log.case.sources.get(name)
        if not isinstance(found, dict):
            raise NotFoundError("The case has no result of “{name}”.", name=name)
        return found

    async def mcp_tools(self, server: McpServerConfig) -> list[ToolSpec]:
        """Return the names of a server's tools: nobody is asked."""
        return [ToolSpec(name, "") for name in server.names]

    async def call_mcp(
        self, server: McpServerConfig, name: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the result that the case gives under the tool's name."""
        return await self.call_tool(name, arguments)

    def tool_spec(self, name: str) -> ToolSpec:
        """Return what is known of a tool; one that is not installed has but its name."""
        known = name in set(PLUGINS.names("tool"))
        return spec_of(PLUGINS.get("tool", name)) if known else ToolSpec(name, "")


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What a case came to; no ``faults``: as expected."""

    name: str
    route: tuple[str, ...]
    status: str
    variables: Mapping[str, Any]
    answer: str
    faults: tuple[str, ...]


def run_cases(*, path: Path) -> list[CaseResult]:
    """Return the results of all cases of a flow's folder, in their order.

    Raises NotFoundError without cases, InvalidInputError for wrong ones and for a wrong flow.
    """
    found = read_cases(path)
    graph = compiled_graph_of_files(files=read_flow_folder(path))
    return [_tried(graph, case, found) for case in found.cases]


def _tried(graph: FlowGraph, case: FlowCase, found: FlowCaseFile) -> CaseResult:
    script = {"answers": [*case.answers, *found.answers], "default": found.default}
    log = DryRunLog(graph.flow, case, model_of_script(script=script, name=case.name))
    state: Mapping[str, Any] = {}
    status, reason = "done", ""
    try:
        state = initial_state(graph.flow.definition, case.message, case.state)
        end = async_to_sync(graph.run)(state, log)
        state, status = end.state, "paused" if end.paused else "done"
    except RAGError as error:
        status, reason = "error", str(error)
    return _compared(case, log, state, status, reason)


def _compared(
    case: FlowCase, log: DryRunLog, state: Mapping[str, Any], status: str, reason: str
) -> CaseResult:
    wanted, faults = case.expect, []
    variables = state.get("edges_var") or {}
    answer = ((state.get("flow_msgs") or [{}])[-1]).get("content", "")
    if status != wanted.status:
        faults.append(f"status: {status}, not {wanted.status}. {reason}".strip())
    if wanted.route is not None and log.route != wanted.route:
        faults.append(f"route: {' → '.join(log.route)}, not {' → '.join(wanted.route)}")
    for name, value in wanted.variables.items():
        if name not in variables or variables[name] != value:
            faults.append(f"{name}: {variables.get(name)!r}, not {value!r}")
    for name, text, part in (("answer", answer, wanted.answer), ("error", reason, wanted.error)):
        if part not in text:
            faults.append(f"{name}: “{text}” does not hold “{part}”")
    return CaseResult(case.name, tuple(log.route), status, variables, answer, tuple(faults))
