"""Settings of agents: ``settings.AGENTS`` over the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

AGENT_DEFAULTS: Mapping[str, Any] = {
    # langgraph, or plain: the same steps by a loop of ours.
    "ENGINE": "langgraph",
    # Whether an answer is written to its end when nobody listens any more.
    "FINISHES_ALONE": True,
    "PING_S": 15.0,
    "KEEP_EVENTS_H": 24.0,
    # For so many days, 0 for ever: what nobody has touched for longer goes.
    "KEEP_SESSIONS_DAYS": 0.0,
    "KEEP_RUNS_DAYS": 0.0,
    "KEEP_MEMORIES_DAYS": 365.0,
}


def agent_setting(name: str) -> Any:
    """Return the value of a setting of agents."""
    return settings.AGENTS.get(name, AGENT_DEFAULTS[name])
