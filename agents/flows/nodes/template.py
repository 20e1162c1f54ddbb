"""Template node: a text made of variables, without a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop
from pydantic import Field

from agents.core.nodes import NodeRun, register_node
from agents.flows.definition.node_configs import NodeOptions, VariableName
from agents.flows.definition.state import filled_text


class TemplateConfig(NodeOptions):
    """``template`` is a text with ``{name}``; what it comes to is under ``result_key``."""

    template: str = Field(max_length=100_000)
    result_key: VariableName = "text"

    def sets(self) -> frozenset[str]:
        """Return the variable of the text."""
        return frozenset({self.result_key})

    def texts(self) -> Mapping[str, Any]:
        """Return what is filled."""
        return {"template": self.template}


@register_node
class TemplateNode:
    """Fills a text with variables."""

    name = "template"
    label = gettext_noop("Template")
    Config = TemplateConfig

    async def run(
        self, state: Mapping[str, Any], config: TemplateConfig, run: NodeRun
    ) -> dict[str, Any]:
        """Return the text under ``result_key``."""
        return {"edges_var": {config.result_key: filled_text(config.template, state)}}
