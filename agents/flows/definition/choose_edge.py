"""Edge routing: the first edge of a node whose condition holds decides where a run goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agents.flows.definition.conditions import ALWAYS, compile_condition
from agents.flows.definition.definition import DEFAULT, END, EdgeDefinition
from rag.core.errors import InvalidInputError

_MAX_SHOWN = 200


@dataclass(frozen=True, slots=True)
class EdgeChoice:
    """The edge that was taken; ``missing`` variables and ``mistakes`` made comparisons false."""

    targets: tuple[str, ...]
    condition: str
    missing: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


def choose_edge(
    node: str, edges: Sequence[EdgeDefinition], values: Mapping[str, Any]
) -> EdgeChoice:
    """Return the route of the first edge in the file's order whose condition holds.

    ``default`` holds when no other does, wherever it stands; without any edge a node is a last
    one. Raises InvalidInputError naming values and conditions when none holds.
    """
    if not edges:
        return EdgeChoice((END,), ALWAYS)
    missing: dict[str, None] = {}
    mistakes: dict[str, None] = {}
    default: EdgeDefinition | None = None
    for edge in edges:
        text = edge.condition.strip()
        if text == DEFAULT:
            default = default or edge
            continue
        verdict = compile_condition(text).evaluate(values)
        missing.update(dict.fromkeys(verdict.missing))
        mistakes.update(dict.fromkeys(verdict.mistakes))
        if verdict.is_true:
            return EdgeChoice(_targets(edge), text, tuple(missing), tuple(mistakes))
    if default is not None:
        return EdgeChoice(_targets(default), DEFAULT, tuple(missing), tuple(mistakes))
    raise InvalidInputError(
        "After “{node}” no condition holds: {conditions}. The values are: {values}.",
        hint="Add an edge with the condition default.",
        node=node,
        conditions="; ".join(edge.condition.strip() for edge in edges),
        values=_shown(edges, values),
    )


def _targets(edge: EdgeDefinition) -> tuple[str, ...]:
    return tuple(dict.fromkeys(edge.targets))


def _shown(edges: Sequence[EdgeDefinition], values: Mapping[str, Any]) -> str:
    names = {name for edge in edges for name in compile_condition(edge.condition).variables}
    parts = []
    for name in sorted(names):
        value = repr(values[name]) if name in values else "missing"
        parts.append(f"{name} = {value[:_MAX_SHOWN]}")
    return ", ".join(parts) or "none"
