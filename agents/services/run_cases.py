"""Cases beside a flow, tried without models and sources. In: a folder. Out: what each came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync

from agents.flows.cases import Case, CaseFile, read_cases
from agents.flows.folder import read_folder
from agents.flows.start_state import start_state
from agents.services.load_flow import graph_of_files
from agents.services.pretend_log import PretendLog
from rag.core.errors import RAGError
from rag.services.scripted_models import model_of_script

if TYPE_CHECKING:
    from agents.graphs.flow import FlowGraph


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
    graph = graph_of_files(files=read_folder(path))
    return [_tried(graph, case, found) for case in found.cases]


def _tried(graph: FlowGraph, case: Case, found: CaseFile) -> CaseResult:
    script = {"answers": [*case.answers, *found.answers], "default": found.default}
    log = PretendLog(graph.flow, case, model_of_script(script=script, name=case.name))
    state: Mapping[str, Any] = {}
    status, reason = "done", ""
    try:
        state = start_state(graph.flow.definition, case.message, case.state)
        end = async_to_sync(graph.run)(state, log)
        state, status = end.state, "paused" if end.paused else "done"
    except RAGError as error:
        status, reason = "error", str(error)
    return _compared(case, log, state, status, reason)


def _compared(
    case: Case, log: PretendLog, state: Mapping[str, Any], status: str, reason: str
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
