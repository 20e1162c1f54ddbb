"""The desk of agents and flows: pages that parse, call one service and render."""

from __future__ import annotations

from agents.admin import agent, flow, flow_run, session

__all__ = ["agent", "flow", "flow_run", "session"]
