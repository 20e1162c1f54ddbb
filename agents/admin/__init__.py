"""Django admin of agents, conversations, flows and runs, and the chat page."""

from __future__ import annotations

from agents.admin import agent, flow, flow_run, outbound, session, widget
