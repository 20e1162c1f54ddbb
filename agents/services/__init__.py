"""Use cases of agents, conversations and flows."""

from __future__ import annotations
