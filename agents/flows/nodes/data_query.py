"""Data query node: rows and items from databases and APIs, by source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop

from agents.core.nodes import NodeRun, register_node
from agents.core.source_configs import DataQueryConfig
from agents.flows.nodes.rag import RagNode


@register_node
class DataQueryNode:
    """Queries sources of rows and items; nothing that searches by vectors."""

    name = "data_query"
    label = gettext_noop("Data query")
    Config = DataQueryConfig

    async def run(
        self, state: Mapping[str, Any], config: DataQueryConfig, run: NodeRun
    ) -> dict[str, Any]:
        """Return what a ``rag`` node does."""
        return await RagNode().run(state, config, run)
