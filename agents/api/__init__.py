"""Edges of agents and flows: verbs by django-ninja, nouns by DRF, OpenAI's protocol, MCP."""

from __future__ import annotations
