"""HTTP API of agents and flows: DRF resources, django-ninja actions, OpenAI, MCP."""

from __future__ import annotations
