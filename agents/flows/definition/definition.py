"""Flow schema: the YAML of a flow as pydantic models, errors with line and column.

The ``config`` of a node is the node type's own affair; see ``node_configs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from agents.core.state import FIELDS
from agents.flows.definition.inputs import FlowInput
from rag.core.errors import InvalidInputError
from rag.stages.text.yaml_positions import LocatedYaml, parse_yaml


def schema_fields(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """Return the names as the file writes them, empty where the path leads to no one model."""
    here: list[type[BaseModel]] = [model]
    for step in path:
        if isinstance(step, str):
            annotations = [
                one.annotation
                for place in here
                for name, one in place.model_fields.items()
                if step in (name, one.alias)
            ]
            # A step may name a member of a union instead of a field.
            inner = [one for each in annotations for one in _models(each)]
            here = inner or [one for one in here if one.__name__ == step] or here
    if len(here) != 1:
        return []
    return [one.alias or name for name, one in here[0].model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


END = "END"
DEFAULT = "default"
# An edge that is taken when its node failed.
FAILURE = "failure"
_KEYWORDS = ("always", DEFAULT, FAILURE)
_NAME = re.compile(r"[^\W\d][\w-]{0,63}")
_INPUT = re.compile(r"[^\W\d]\w{0,63}")
_Coordinate = Annotated[float, Field(ge=-1e6, le=1e6)]
# What prompts and queries are given besides inputs.
_TAKEN = frozenset({*FIELDS, "user_query", "rag_context"})


class EdgeDefinition(BaseModel):
    """An edge: taken always, on a CEL condition, or by ``default`` when no other one is.

    One with ``failure`` is taken when its node failed, and never else. Several ``to`` run side
    by side.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True, frozen=True)

    source: str = Field(alias="from")
    targets: list[str] = Field(alias="to", min_length=1, max_length=20)
    condition: str = Field(default="always", json_schema_extra={"examples": [*_KEYWORDS]})

    @field_validator("targets", mode="before", json_schema_input_type=str | list[str])
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


# The type of a node, whose options are the ``config`` beside it: a mark for the schema of flows.
NodeTypeName = Annotated[str, Field(json_schema_extra={"x-node-type": True})]


class NodeDefinition(BaseModel):
    """A node: its name, the type that runs it, and what that type is told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    type: NodeTypeName
    config: dict[str, Any] = {}

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        if name == END or not _NAME.fullmatch(name):
            raise ValueError("a name is letters, digits, _ and -, at most 64, and not END")
        return name


class FlowDefinition(BaseModel):
    """A whole flow. ``max_steps`` bounds its cycles, ``timeout_s`` a run from start to end.

    ``inputs`` are what a run may be given besides its message, each with a line for people, or
    with type, default, required and choices. ``memory`` names the project whose memories of the
    person are recalled, and into which exchanges go. ``layout`` says where people moved nodes to on
    the canvas, as ``[x, y]``; a run knows nothing of it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")
    version: str = Field(default="1", max_length=40)
    description: str = ""
    nodes: list[NodeDefinition] = Field(min_length=1, max_length=500)
    edges: list[EdgeDefinition] = Field(max_length=5000)
    entry_node: str
    inputs: dict[str, FlowInput] = {}
    max_steps: int = Field(default=50, ge=1, le=1000)
    timeout_s: float = Field(default=1800, gt=0, le=86_400)
    memory: str = Field(default="", max_length=64)
    layout: dict[str, tuple[_Coordinate, _Coordinate]] = Field(default={}, max_length=500)

    @field_validator("inputs")
    @classmethod
    def _free(cls, inputs: dict[str, FlowInput]) -> dict[str, FlowInput]:
        for name in inputs:
            if not _INPUT.fullmatch(name):
                raise ValueError(f"“{name}” is no name: letters, digits and _, at most 64")
            if name in _TAKEN:
                raise ValueError(f"“{name}” is in every state already: give the input another name")
        return inputs


@dataclass(frozen=True, slots=True)
class Flow:
    """A definition whose nodes' configs are read, with the places for further checks.

    ``prompts`` are the texts of its prompt files by their path.
    """

    definition: FlowDefinition
    configs: Mapping[str, BaseModel]
    located: LocatedYaml
    prompts: Mapping[str, str] = field(default_factory=dict)


def parse_flow(
    text: str,
    node_configs: Mapping[str, type[BaseModel]],
    *,
    prompts: Mapping[str, str] | None = None,
    name: str = "flow.yaml",
) -> Flow:
    """Return the flow of a YAML text; ``node_configs`` are the node types that there are.

    Raises InvalidInputError for the first mistake, with file, line, column, field and what is
    allowed.
    """
    located = parse_yaml(text, name=name)
    if not isinstance(located.data, dict):
        raise InvalidInputError(
            "“{name}” holds no flow.", hint="Write name, nodes, edges.", name=name
        )
    try:
        definition = FlowDefinition.model_validate(located.data)
    except ValidationError as error:
        raise _mistake(error, FlowDefinition, located, name, ()) from None
    configs = {}
    for number, node in enumerate(definition.nodes):
        key = ("nodes", number)
        if node.name in configs:
            raise located.mistake(name, (*key, "name"), f"the node “{node.name}” is there twice")
        if node.type not in node_configs:
            known = ", ".join(sorted(node_configs))
            raise located.mistake(
                name, (*key, "type"), f"unknown type “{node.type}”; known: {known}"
            )
        try:
            configs[node.name] = node_configs[node.type].model_validate(node.config)
        except ValidationError as error:
            raise _mistake(
                error, node_configs[node.type], located, name, (*key, "config")
            ) from None
    return Flow(definition, configs, located, dict(prompts or {}))


def _mistake(
    error: ValidationError,
    model: type[BaseModel],
    located: LocatedYaml,
    name: str,
    prefix: tuple[str | int, ...],
) -> InvalidInputError:
    faults = error.errors(include_url=False)
    # A misspelt field is why another one is missing.
    first = next((one for one in faults if one["type"] == "extra_forbidden"), faults[0])
    key = (*prefix, *first["loc"])
    reason = re.sub(r"^Value error, ", "", first["msg"])
    known = schema_fields(model, first["loc"][:-1])
    if first["type"] == "extra_forbidden" and known:
        reason = f"there is no such field; known: {', '.join(known)}"
    if first["type"] == "string_type" and isinstance(first["input"], bool | int | float):
        reason = "this is no text for YAML: write it in quotes"
    return located.mistake(name, key, f"{'.'.join(map(str, key))}: {reason}")
