"""Classifier node: one of several classes, chosen for a text by a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

from django.utils.translation import gettext_noop
from pydantic import Field, model_validator

from agents.core.nodes import NodeRun, register_node
from agents.flows.definition.node_configs import VariableName
from agents.flows.nodes.json_answer import AskingOptions, ask_for_json
from rag.core.errors import ProviderError


class ClassifyConfig(AskingOptions):
    """``classes`` are names with descriptions. ``default`` is the class of a text for which the
    model names none of them; without it the node fails then."""

    classes: dict[str, str] = Field(min_length=2, max_length=50)
    default: str = ""
    result_key: VariableName = "category"

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.default and self.default not in self.classes:
            raise ValueError(f"default “{self.default}” is none of {', '.join(self.classes)}")
        return self

    def sets(self) -> frozenset[str]:
        """Return the variable of the class."""
        return frozenset({self.result_key})


@register_node
class ClassifyNode:
    """Sorts a text into one of several classes."""

    name = "classify"
    label = gettext_noop("Classifier")
    Config = ClassifyConfig

    async def run(
        self, state: Mapping[str, Any], config: ClassifyConfig, run: NodeRun
    ) -> dict[str, Any]:
        """Return the class under ``result_key``; raise ProviderError where the model names none."""
        names = list(config.classes)
        schema = {
            "type": "object",
            "required": ["class"],
            "properties": {"class": {"type": "string", "enum": names}},
        }
        told = {
            "classes": "\n".join(f"- {name}: {text}" for name, text in config.classes.items()),
            "example": json.dumps({"class": names[0]}, ensure_ascii=False),
        }
        output, fault = await ask_for_json(state, config, run, schema, ("classify", told))
        if fault and not config.default:
            raise ProviderError(
                "The model named none of the classes of “{name}”: {known}.",
                hint="Give the node a default, or describe its classes.",
                name=run.node,
                known=", ".join(names),
            )
        chosen = config.default if fault else output.variables["class"]
        return {"edges_var": {config.result_key: chosen}}
