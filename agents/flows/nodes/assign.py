"""Assignment node: sets variables, adds to lists, and forgets, without a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from django.utils.translation import gettext_noop
from pydantic import Field, model_validator

from agents.core.nodes import NodeRun, register_node
from agents.flows.definition.node_configs import NodeOptions, VariableName
from agents.flows.definition.state import filled_value
from rag.core.errors import InvalidInputError, LimitError

MAX_ITEMS = 10_000


class AssignConfig(NodeOptions):
    """``set`` gives variables values, ``append`` adds one to a list, ``clear`` unsets some. A text
    that is ``{name}`` alone is that variable with its type."""

    set: dict[VariableName, Any] = Field(default={}, max_length=100)
    append: dict[VariableName, Any] = Field(default={}, max_length=100)
    clear: list[VariableName] = Field(default=[], max_length=100)

    @model_validator(mode="after")
    def _once(self) -> Self:
        names = [*self.set, *self.append, *self.clear]
        twice = next((name for name in names if names.count(name) > 1), "")
        if twice or not names:
            raise ValueError(
                f"“{twice}” is there twice" if twice else "it needs set, append or clear"
            )
        return self

    def sets(self) -> frozenset[str]:
        """Return the variables that get a value."""
        return frozenset({*self.set, *self.append})

    def texts(self) -> Mapping[str, Any]:
        """Return what is filled."""
        return {"set": self.set, "append": self.append}


@register_node
class AssignNode:
    """Sets variables."""

    name = "assign"
    label = gettext_noop("Assignment")
    Config = AssignConfig

    async def run(
        self, state: Mapping[str, Any], config: AssignConfig, run: NodeRun
    ) -> dict[str, Any]:
        """Return the variables; raise InvalidInputError where something else than a list grows."""
        before = state.get("edges_var") or {}
        update: dict[str, Any] = dict.fromkeys(config.clear)
        update |= {name: filled_value(one, state) for name, one in config.set.items()}
        for name, one in config.append.items():
            items = before.get(name)
            if items is not None and not isinstance(items, list):
                raise InvalidInputError("“{name}” is no list to append to.", name=name)
            if len(items or ()) >= MAX_ITEMS:
                raise LimitError("The list “{name}” has {limit} items.", name=name, limit=MAX_ITEMS)
            update[name] = [*(items or ()), filled_value(one, state)]
        return {"edges_var": update}
