"""Whether a node's edges are a clear choice. In: a definition. Out: findings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from agents.flows.conditions import ALWAYS, Condition, compile_condition
from agents.flows.definition import DEFAULT, EdgeDefinition, FlowDefinition
from agents.flows.finding import Findings
from agents.flows.overlaps import find_overlap
from rag.core.errors import RAGError

_Numbered = Sequence[tuple[int, EdgeDefinition]]


def check_edges(flow: FlowDefinition, found: Findings) -> None:
    """Report unreadable, repeated, overlapping and never reached conditions, node by node."""
    by_source: dict[str, list[tuple[int, EdgeDefinition]]] = {}
    for number, edge in enumerate(flow.edges):
        by_source.setdefault(edge.source, []).append((number, edge))
    for edges in by_source.values():
        _check_order(edges, found)
        _check_overlaps(edges, found)


def _check_order(edges: _Numbered, found: Findings) -> None:
    name = edges[0][1].source
    n_defaults, is_decided = 0, False
    for number, edge in edges:
        key = ("edges", number, "condition")
        if is_decided:
            found.error(("edges", number), RAGError(
                "is never taken: an edge of “{name}” before it is taken always", name=name
            ))  # fmt: skip
        is_decided = is_decided or edge.condition.strip() == ALWAYS
        n_defaults += edge.condition.strip() == DEFAULT
        if edge.condition.strip() == DEFAULT and n_defaults > 1:
            found.error(key, RAGError("“{name}” has two default edges", name=name))
    if not is_decided and not n_defaults:
        found.warning(("edges", edges[0][0]), RAGError(
            "when no condition of “{name}” holds the run ends with an error: add an edge with the "
            "condition default", name=name,
        ))  # fmt: skip


def _check_overlaps(edges: _Numbered, found: Findings) -> None:
    conditions: list[tuple[int, Condition]] = []
    for number, edge in edges:
        if edge.condition.strip() in (ALWAYS, DEFAULT):
            continue
        with found.reporting(("edges", number, "condition")):
            conditions.append((number, compile_condition(edge.condition)))
    for (_, first), (number, second) in combinations(conditions, 2):
        key = ("edges", number, "condition")
        if first.text == second.text:
            found.error(key, RAGError("is never taken: an edge before it has the same condition"))
        elif (both := find_overlap(first, second)) is not None:
            values = ", ".join(f"{name} = {value!r}" for name, value in both.items())
            found.warning(key, RAGError(
                "may hold together with “{other}” (for {values}); the first in the file is taken",
                other=first.text, values=values,
            ))  # fmt: skip
