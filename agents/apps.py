"""Django's handle on the agents package."""

from __future__ import annotations

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    """Agents and flows."""

    name = "agents"
    verbose_name = "Agents"
