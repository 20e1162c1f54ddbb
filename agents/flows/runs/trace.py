"""Trace of a visit: what a node was given, asked, found and answered, and why the run went on so.

What a node was given is not stored: the graph plays its recorded visits once more, and asks nobody.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from asgiref.sync import async_to_sync

from agents import models
from agents.core.cited_answers import number_of
from agents.core.nodes import Pause
from agents.core.state import Replace, unpack_update
from agents.flows.definition.state import last_turn, user_query
from agents.flows.runs.redact import RunRedactor, redactor_of
from agents.flows.runs.run_traces import cut_trace
from agents.flows.runs.visits import call_cost, run_visits
from agents.flows.versions.load import compiled_graph
from agents.runtime.scopes import may_read_run
from rag.core.access import Scope
from rag.core.errors import NotFoundError, RAGError

_Visit = tuple[str, int]


def visit_trace(*, run: models.FlowRun, scope: Scope, node: str, visit: int) -> dict[str, Any]:
    """Return all that is known of a visit; raise NotFoundError where there was none.

    Whoever steers another's run is told its times, tokens and conditions, not its words.
    """
    gone, is_theirs = redactor_of(run=run), may_read_run(run=run, scope=scope)
    visits = run_visits(run=run, is_theirs=is_theirs, gone=gone)
    entry = next((one for one in visits if (one["node"], one["visit"]) == (node, visit)), None)
    if entry is None:
        raise NotFoundError("The run never came to “{node}”.", node=f"{node} {visit}")
    rows = list(
        run.events.filter(node=node, visit=visit)
        .exclude(kind__in=("token", "draft"))
        .order_by("seq")
    )
    told = _Events(run, gone, is_theirs, rows)
    found: dict[str, Any] = {
        **entry,
        "is_readable": is_theirs,
        "is_incomplete": any(row.trace is None for row in rows if row.kind == "model_answer"),
        "inputs": None,
        "outputs": None,
        "calls": told.calls(),
        "retrieval": told.retrieval(),
        "tools": told.tools(),
        "route": told.route(entry["route"]),
        "decision": told.decision(),
    }
    if is_theirs:
        given, reason = _given(run, node, visit)
        found["inputs"] = None if given is None else cut_trace(_shown(gone.state(given)))
        found["inputs_missing"] = reason
        found["outputs"] = told.outputs()
    return found


class _Past:
    """``agents.core.nodes.RunLog`` of what has happened: nothing is worked on, nothing stored."""

    def __init__(self, run: models.FlowRun) -> None:
        rows = run.events.filter(kind="node_finished").order_by("seq")
        self._updates = {
            (node, visit): unpack_update(json.loads(record))
            for node, visit, record in rows.values_list("node", "visit", "record")
            if record is not None
        }

    def recorded(self, node: str, visit: int) -> Mapping[str, Any] | Pause:
        """Return what a visit came to; where the run stood still, failed or works, a pause."""
        return self._updates.get((node, visit)) or Pause("", ())

    def node_run(self, node: str, visit: int) -> Any:
        """Lend nothing: no node is at work."""

    async def started(self, node: str, visit: int) -> None:
        """Note nothing."""

    async def finished(self, node: str, visit: int, update: Mapping[str, Any]) -> None:
        """Note nothing."""

    async def routed(self, node: str, visit: int, route: Any, tests: Any) -> None:
        """Note nothing."""

    async def paused(self, node: str, visit: int, pause: Pause) -> None:
        """Note nothing."""

    async def failed(self, node: str, visit: int) -> None:
        """Note nothing."""


def _given(
    run: models.FlowRun, node: str, visit: int
) -> tuple[Mapping[str, Any] | None, dict[str, Any] | None]:
    """Return the state that a visit began with, or why nobody can tell any more."""
    if "." in node:
        return None, RAGError("What a node inside another was given is not kept.").as_dict()
    found: dict[_Visit, Mapping[str, Any]] = {}

    def seen(name: str, number: int, state: Mapping[str, Any]) -> None:
        if (name, number) == (node, visit):
            found[name, number] = dict(state)

    try:
        graph = compiled_graph(version=run.version)
        async_to_sync(graph.run)(run.start, _Past(run), seen)
    except RAGError as error:
        # A type of node that is not installed any more, or a condition that none of it meets.
        if (node, visit) not in found:
            return None, error.as_dict()
    return found.get((node, visit)), None


class _Events:
    """What the events of one visit tell, without what is gone or for others."""

    def __init__(
        self,
        run: models.FlowRun,
        gone: RunRedactor,
        is_theirs: bool,
        rows: list[models.RunEvent],
    ) -> None:
        self._gone, self._is_theirs, self._rows = gone, is_theirs, rows
        self._prompts = run.version.prompts

    def calls(self) -> list[dict[str, Any]]:
        """Return each call of a model: what was sent, what came, what it took."""
        return [
            self._call(row) for row in self._rows if row.kind in ("model_answer", "model_failed")
        ]

    def _call(self, row: models.RunEvent) -> dict[str, Any]:
        trace, data = self._trace(row), row.data
        record = self._record(row)
        return {
            "model": data.get("model") or "",
            "messages": trace.get("messages") if self._is_theirs else None,
            "n_before": trace.get("n_before", 0),
            "temperature": trace.get("temperature"),
            "max_tokens": trace.get("max_tokens"),
            "options": trace.get("options") or {},
            "answer": _answer_text(record) if self._is_theirs else None,
            "finish_reason": record.get("finish_reason") or "",
            "input_tokens": data.get("input_tokens"),
            "output_tokens": data.get("output_tokens"),
            **call_cost(model=str(data.get("model") or ""), data=data),
            "duration_ms": data.get("duration_ms"),
            "error": data.get("error"),
        }

    def retrieval(self) -> dict[str, Any] | None:
        """Return what sources were asked and found, each passage with its number and score."""
        row = next((one for one in reversed(self._rows) if one.kind == "rag_results"), None)
        if row is None:
            return None
        data = self._gone.event(row.kind, row.data)
        finished = self._last("node_finished")
        context = (self._record(finished) if finished else {}).get("query_context") or {}
        return {
            "query": context.get("query_text") if self._is_theirs else None,
            "counts": data.get("counts") or {},
            "durations_ms": data.get("durations_ms") or {},
            "errors": data.get("errors") or {},
            "faults": data.get("faults") or {},
            "notes": data.get("notes") or [],
            "passages": _passages(data) if self._is_theirs else None,
        }

    def tools(self) -> list[dict[str, Any]]:
        """Return each call of a tool, with its answer or what was wrong."""
        rows = [self._gone.event(row.kind, row.data) for row in self._rows if row.kind == "tool"]
        return [
            {
                "tool": data.get("tool"),
                "duration_ms": data.get("duration_ms"),
                "arguments": data.get("arguments") if self._is_theirs else None,
                "answer": data.get("answer") if self._is_theirs else None,
                "error": data.get("error") if self._is_theirs else None,
                "passages": _passages(data) if self._is_theirs else None,
            }
            for data in rows
        ]

    def route(self, taken: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the edge that was taken, and each condition with the values it was asked of."""
        row = self._last("route")
        if row is None or taken is None:
            return None
        tests = self._trace(row).get("tests") or []
        if not self._is_theirs:
            tests = [{**one, "values": None} for one in tests]
        return {**taken, "tests": tests}

    def decision(self) -> str | None:
        """Return what a person decided, and said."""
        row = self._last("decided")
        if row is None or not self._is_theirs:
            return None
        told = (str(row.data.get(name) or "") for name in ("decision", "comment"))
        return ": ".join(filter(None, told))

    def outputs(self) -> dict[str, Any] | None:
        """Return what the visit added to the state."""
        row = self._last("node_finished")
        if row is None:
            return None
        update = self._record(row)
        data = self._gone.event(row.kind, row.data)
        return {
            **cut_trace(_shown(update)),
            "response": data.get("response_content") or "",
            "grounding": data.get("grounding") or {},
            "citations": data.get("citations") or [],
        }

    def _last(self, kind: str) -> models.RunEvent | None:
        return next((row for row in reversed(self._rows) if row.kind == kind), None)

    def _trace(self, row: models.RunEvent) -> dict[str, Any]:
        return self._gone.trace(json.loads(row.trace), self._prompts) if row.trace else {}

    def _record(self, row: models.RunEvent) -> dict[str, Any]:
        if row.record is None:
            return {}
        record = self._gone.record(row.kind, row.record)
        return unpack_update(json.loads(record))


def _answer_text(record: Mapping[str, Any]) -> Any:
    """Return what a model said; where it called tools by functions of its own, the calls."""
    calls = [
        {"tool": one["name"], "arguments": one["arguments"]}
        for one in record.get("tool_calls") or ()
    ]
    text = record.get("text", record.get("output"))
    return f"{text}\n{json.dumps(calls, ensure_ascii=False)}".strip() if calls else text


def _shown(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state, or an update of one, as people look at it; empty parts are left out."""
    plain = {key: one.value if isinstance(one, Replace) else one for key, one in state.items()}
    known = {"edges_var", "prompt_vars", "flow_msgs", "current_message", "history_messages"}
    parts = {
        "message": user_query(plain),
        "variables": plain.get("edges_var"),
        "given": {k: one for k, one in (plain.get("prompt_vars") or {}).items() if one is not None},
        "last_text": last_turn(plain),
        "turns": plain.get("flow_msgs"),
        "history": plain.get("history_messages"),
        **{key: one for key, one in plain.items() if key not in known},
    }
    return {key: one for key, one in parts.items() if one not in (None, "", [], {})}


def _passages(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "number": number_of(str(one.get("doc_id") or "")),
            "source": (one.get("source") or {}).get("name") or one.get("source_name") or "",
            "page": one.get("page_first"),
            "score": one.get("score"),
            "content": one.get("content") or "",
            "is_gone": bool(one.get("is_gone")),
        }
        for one in data.get("passages") or ()
    ]
