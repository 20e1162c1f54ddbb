"""Parameter extraction node: values of a JSON schema, read from a text by a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop
from pydantic import field_validator

from agents.core.nodes import NodeRun, register_node
from agents.core.state import IDENTITY
from agents.flows.nodes.json_answer import AskingOptions, ask_for_json

MAX_PROPERTIES = 100


class ExtractConfig(AskingOptions):
    """``output_schema`` is a JSON schema with ``properties``: each becomes a variable. What the
    text does not say is not set; what is required and cannot be read makes ``parse_error`` true."""

    output_schema: dict[str, Any]

    @field_validator("output_schema")
    @classmethod
    def _of_properties(cls, schema: dict[str, Any]) -> dict[str, Any]:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not 0 < len(properties) <= MAX_PROPERTIES:
            raise ValueError(f"it needs 1 to {MAX_PROPERTIES} properties")
        for name in properties:
            if name in IDENTITY:
                raise ValueError(f"“{name}” says who acts and cannot be set")
        return schema

    def sets(self) -> frozenset[str]:
        """Return the properties."""
        return frozenset({"parse_error", *self.output_schema["properties"]})


@register_node
class ExtractNode:
    """Reads values from a text."""

    name = "extract"
    label = gettext_noop("Parameter extraction")
    Config = ExtractConfig

    async def run(
        self, state: Mapping[str, Any], config: ExtractConfig, run: NodeRun
    ) -> dict[str, Any]:
        """Return the values as variables; those of an earlier visit that are not said are gone."""
        schema = config.output_schema
        told = {"schema": json.dumps(schema, ensure_ascii=False)}
        output, fault = await ask_for_json(state, config, run, schema, ("extract", told))
        unsaid = dict.fromkeys(schema["properties"])
        found = {} if fault else output.variables
        return {"edges_var": {**unsaid, **found, "parse_error": bool(fault)}}
