"""App configuration of the agents package."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class AgentsConfig(AppConfig):
    """Agents and flows."""

    name = "agents"
    verbose_name = gettext_lazy("Agents")

    def ready(self) -> None:
        """File the node types that ship."""
        # Configs and labels need the apps, which are complete only now.
        from agents.flows import nodes as nodes
