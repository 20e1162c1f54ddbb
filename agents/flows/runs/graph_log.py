"""Run log as the graph engine sees it: node events in, recorded updates out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from agents import models
from agents.core.nodes import Pause
from agents.flows.runs.event_log import RunEventLog
from agents.flows.runs.node_context import FlowNodeContext
from rag.core import metrics
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.request_context import set_account


class GraphLog:
    """``agents.core.nodes.RunLog`` on the stored events of a run."""

    def __init__(self, events: RunEventLog, scope: Scope, deadline: Deadline) -> None:
        self.reviews: list[dict[str, Any]] = []
        self._events, self._scope, self._deadline = events, scope, deadline
        self._prompts: Mapping[str, str] = events.run.version.prompts
        self._began: dict[tuple[str, int], float] = {}

    def recorded(self, node: str, visit: int) -> Mapping[str, Any] | None:
        """Return the update of a visit that an earlier worker has finished."""
        return self._events.updates.get((node, visit))

    def node_run(self, node: str, visit: int) -> FlowNodeContext:
        """Return what a node is lent, with the decision that was made for this visit."""
        run: models.FlowRun = self._events.run
        set_account(self._scope, kind="flow", agent=run.version.flow.name, run=str(run.key))
        return FlowNodeContext(
            node,
            visit,
            self._scope,
            self._deadline,
            self._prompts,
            self._events,
            run.model,
            self._events.decisions.get((node, visit)),
        )

    async def started(self, node: str, visit: int) -> None:
        """Store that a visit begins."""
        self._began[node, visit] = time.monotonic()
        await self._events.append("node_started", node, visit, data={"visit": visit})

    async def finished(self, node: str, visit: int, update: Mapping[str, Any]) -> None:
        """Store a visit's update, from which other workers go on."""
        turns = update.get("flow_msgs") or []
        spent_s, flow = self._since(node, visit) / 1e3, self._events.run.version.flow.name
        metrics.observe("node", spent_s, flow=flow, node=node, outcome="ok")
        data = {
            "visit": visit,
            "duration_ms": self._since(node, visit),
            "variables": update.get("edges_var") or {},
            "response_content": turns[-1]["content"] if turns else "",
        }
        await self._events.append("node_finished", node, visit, data=data, record=update)

    async def routed(self, node: str, visit: int, route: Mapping[str, Any]) -> None:
        """Store which edge was taken."""
        await self._events.append("route", node, visit, data=route)

    async def paused(self, node: str, visit: int, pause: Pause) -> None:
        """Keep what must be decided for the end of this leg, when the whole run stands still."""
        self.reviews.append(
            {
                "node": node,
                "visit": visit,
                "message": pause.message,
                "decisions": list(pause.decisions),
            }
        )

    async def failed(self, node: str, visit: int) -> None:
        """Store where a run broke off."""
        data = {"visit": visit, "duration_ms": self._since(node, visit)}
        flow = self._events.run.version.flow.name
        metrics.observe("node", data["duration_ms"] / 1e3, flow=flow, node=node, outcome="failed")
        await self._events.append("node_failed", node, visit, data=data)

    def _since(self, node: str, visit: int) -> float:
        return round((time.monotonic() - self._began[node, visit]) * 1e3, 1)
