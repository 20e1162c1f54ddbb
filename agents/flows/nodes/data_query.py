"""Data query node: rows and items from databases and APIs, by source."""

from __future__ import annotations

from django.utils.translation import gettext_noop

from agents.core.nodes import register_node
from agents.core.source_configs import DataQueryConfig
from agents.flows.nodes.rag import RagNode


@register_node
class DataQueryNode(RagNode):
    """Queries sources of rows and items as ``rag`` does; nothing that searches by vectors."""

    name = "data_query"
    label = gettext_noop("Data query")
    Config = DataQueryConfig
