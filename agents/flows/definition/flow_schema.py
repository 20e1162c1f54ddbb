"""JSON schema of the flow language, derived from the models that read a flow.

What depends on another field (options of a node on its type, of a source on its type) stands in
``allOf`` with ``if`` and ``then``, as JSON schema says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from agents.flows.definition.definition import FlowDefinition


@dataclass(frozen=True, slots=True)
class FlowVocabulary:
    """What may be written in a flow here: names of kinds, and what each is called for people.

    ``sources`` are the schemas of the options of data sources by their type.
    """

    nodes: Mapping[str, type[BaseModel]]
    labels: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tools: tuple[str, ...] = ()


def flow_schema(words: FlowVocabulary) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a flow's YAML."""
    models: list[type[BaseModel]] = [FlowDefinition, *dict.fromkeys(words.nodes.values())]
    places, shared = models_json_schema([(one, "validation") for one in models])
    defs = {name: _plain(one) for name, one in shared["$defs"].items()}
    configs = {name: places[model, "validation"] for name, model in words.nodes.items()}
    for shape in defs.values():
        kind = shape.get("properties", {}).get("type", {})
        if "x-node-type" in kind:
            _add_nodes(shape, words, configs)
        if "x-source" in kind:
            _add_sources(shape, words)
    _add_tools(defs, words.tools)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **places[FlowDefinition, "validation"],
        "$defs": defs,
    }


def _add_nodes(shape: dict[str, Any], words: FlowVocabulary, configs: Mapping[str, Any]) -> None:
    shape["properties"]["type"] = {"oneOf": [_named(name, words.labels) for name in words.nodes]}
    shape["allOf"] = [_when(name, {"config": config}) for name, config in configs.items()]


def _add_sources(shape: dict[str, Any], words: FlowVocabulary) -> None:
    shape["properties"]["type"] = {"oneOf": [_named(name, words.labels) for name in words.sources]}
    shape["allOf"] = [
        {
            **_when(name, options["properties"]),
            "then": {"properties": options["properties"], "required": list(options["required"])},
        }
        for name, options in words.sources.items()
    ]


def _add_tools(shape: Any, names: tuple[str, ...]) -> None:
    if isinstance(shape, dict) and shape.get("x-tool"):
        shape["examples"] = list(names)
    for one in shape.values() if isinstance(shape, dict) else shape:
        if isinstance(one, dict | list):
            _add_tools(one, names)


def _named(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"const": name, "title": labels.get(name, name)}


def _when(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    condition = {"properties": {"type": {"const": name}}, "required": ["type"]}
    return {"if": condition, "then": {"properties": dict(properties)}}


def _plain(shape: Any) -> Any:
    """Return a schema without pydantic's titles, and docstrings, which are for programmers."""
    if isinstance(shape, list):
        return [_plain(one) for one in shape]
    if not isinstance(shape, dict):
        return shape
    kept = {name: one for name, one in shape.items() if name not in ("title", "description")}
    if "oneOf" in kept:
        # One way to say it; oneOf is left for values with their labels.
        kept["anyOf"] = kept.pop("oneOf")
    return {
        name: {key: _plain(one) for key, one in value.items()}
        if name == "properties"
        else _plain(value)
        for name, value in kept.items()
    }
