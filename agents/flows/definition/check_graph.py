"""Static checks of a flow's graph: unreachable nodes, dead ends, cycles, conditions of edges."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agents.flows.definition.conditions import ALWAYS, Condition, compile_condition
from agents.flows.definition.definition import (
    DEFAULT,
    END,
    FAILURE,
    EdgeDefinition,
    FlowDefinition,
)
from agents.flows.definition.findings import FlowFindings
from rag.core.errors import RAGError


def check_graph(flow: FlowDefinition, found: FlowFindings) -> bool:
    """Report unknown names, unreachable nodes, dead ends and unbounded cycles.

    Return whether all names are known, so that paths mean something.
    """
    names = [node.name for node in flow.nodes]
    known = ", ".join(names)
    is_sound = True
    if flow.entry_node not in names:
        found.error(("entry_node",), _no_node(flow.entry_node, known))
        is_sound = False
    for number, edge in enumerate(flow.edges):
        ends = [("to", target, [*names, END]) for target in edge.targets]
        for field, name, allowed in [("from", edge.source, names), *ends]:
            if name not in allowed:
                found.error(("edges", number, field), _no_node(name, known))
                is_sound = False
    for name in flow.layout:
        if name not in names:
            found.warning(("layout", name), _no_node(name, known))
    if is_sound:
        _check_paths(flow, found)
    return is_sound


def ancestors_of(flow: FlowDefinition) -> dict[str, set[str]]:
    """Return for each node itself and all nodes from which a path leads to it."""
    sources = _neighbours((target, edge.source) for edge in flow.edges for target in edge.targets)
    return {node.name: _reached([node.name], sources) for node in flow.nodes}


def _check_paths(flow: FlowDefinition, found: FlowFindings) -> None:
    targets = _neighbours((edge.source, target) for edge in flow.edges for target in edge.targets)
    sources = _neighbours((target, edge.source) for edge in flow.edges for target in edge.targets)
    reachable = _reached([flow.entry_node], targets)
    ending = _reached([END], sources)
    for number, node in enumerate(flow.nodes):
        key = ("nodes", number, "name")
        if node.name not in reachable:
            found.error(key, RAGError("no path leads to “{name}”", name=node.name))
        elif node.name not in ending:
            found.error(key, RAGError("no path leads from “{name}” to END", name=node.name))
    on_cycle = [
        node.name
        for node in flow.nodes
        if node.name in _reached(targets.get(node.name, ()), targets)
    ]
    if on_cycle and "max_steps" not in flow.model_fields_set:
        found.error(
            ("edges",),
            RAGError(
                "the nodes {names} form a cycle without a limit: set max_steps",
                names=", ".join(on_cycle),
            ),
        )


def _no_node(name: str, known: str) -> RAGError:
    return RAGError(
        "there is no node “{name}”; known: {known}",
        hint="(the end of a run is END, in capitals)" if name.upper() == END else "",
        name=name,
        known=known,
    )


def _neighbours(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for start, end in pairs:
        found.setdefault(start, []).append(end)
    return found


def _reached(starts: Iterable[str], neighbours: Mapping[str, list[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += neighbours.get(name, [])
    return reached


def strict_ancestors_of(flow: FlowDefinition) -> Mapping[str, frozenset[str]]:
    """Return for each node those from which a path leads to it, but none back.

    While one of these is still at work, it may yet come to the node: a node where branches join
    waits for it. Nodes on one cycle never wait for each other.
    """
    before = ancestors_of(flow)
    return {
        name: frozenset(other for other in names - {name} if name not in before[other])
        for name, names in before.items()
    }


MAX_TRIES = 3000
MAX_COMPARISONS = 24_000
_LITERAL = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|(?<![\w.])(\d+(?:\.\d+)?)")


def find_overlap(first: Condition, second: Condition) -> Mapping[str, Any] | None:
    """Return values of the variables of both for which both hold, or None."""
    names = sorted({*first.variables, *second.variables})
    literals = _LITERAL.findall(f"{first.text} {second.text}")
    texts = list(
        dict.fromkeys([double or single for double, single, number in literals if not number])
    )
    numbers = {float(number) for _, _, number in literals if number}
    around = sorted({value + step for value in numbers for step in (-0.01, 0, 0.01)})
    tried: list[Any] = [*texts, *around, True, False]
    options = [[*tried, None] for _ in names]
    n_tries = min(MAX_TRIES, MAX_COMPARISONS // (first.n_comparisons + second.n_comparisons))
    for values in itertools.islice(itertools.product(*options), n_tries):
        state = dict(zip(names, values, strict=True))
        if all(_holds(condition, state) for condition in (first, second)):
            return {name: value for name, value in state.items() if value is not None}
    return None


def _holds(condition: Condition, state: Mapping[str, Any]) -> bool:
    verdict = condition.evaluate(state)
    # A comparison of things that do not compare says nothing about real values.
    return verdict.is_true and not verdict.mistakes


# So many different pairs of conditions are tried in a flow: seconds, not hours.
MAX_PAIRS = 300
_Numbered = Sequence[tuple[int, EdgeDefinition]]
_Key = tuple[str | int, ...]
_Tried = dict[tuple[str, str], Mapping[str, Any] | None]


def check_edges(flow: FlowDefinition, found: FlowFindings) -> None:
    """Report unreadable, repeated, overlapping and never reached conditions, node by node."""
    by_source: dict[str, list[tuple[int, EdgeDefinition]]] = {}
    tried: _Tried = {}
    for number, edge in enumerate(flow.edges):
        by_source.setdefault(edge.source, []).append((number, edge))
    for edges in by_source.values():
        _check_order(edges, found)
        _check_overlaps(edges, tried, found)


def _check_order(edges: _Numbered, found: FlowFindings) -> None:
    name = edges[0][1].source
    n_defaults, is_decided = 0, False
    edges = [pair for pair in edges if pair[1].condition.strip() != FAILURE] or edges
    for number, edge in edges:
        key = ("edges", number, "condition")
        if is_decided:
            found.error(
                ("edges", number),
                RAGError(
                    "is never taken: an edge of “{name}” before it is taken always", name=name
                ),
            )
        is_decided = is_decided or edge.condition.strip() == ALWAYS
        n_defaults += edge.condition.strip() == DEFAULT
        if edge.condition.strip() == DEFAULT and n_defaults > 1:
            found.error(key, RAGError("“{name}” has two default edges", name=name))
    if not is_decided and not n_defaults:
        found.warning(
            ("edges", edges[0][0]),
            RAGError(
                "when no condition of “{name}” holds the run ends with an error: add an edge with "
                "the condition default",
                name=name,
            ),
        )


def _check_overlaps(edges: _Numbered, tried: _Tried, found: FlowFindings) -> None:
    conditions: list[tuple[int, Condition]] = []
    for number, edge in edges:
        if edge.condition.strip() in (ALWAYS, DEFAULT, FAILURE):
            continue
        with found.reporting(("edges", number, "condition")):
            conditions.append((number, compile_condition(edge.condition)))
    before: dict[str, Condition] = {}
    for number, condition in conditions:
        key = ("edges", number, "condition")
        if condition.text in before:
            found.error(key, RAGError("is never taken: an edge before it has the same condition"))
            continue
        _compare(condition, before.values(), tried, key, found)
        before[condition.text] = condition


def _compare(
    condition: Condition, before: Iterable[Condition], tried: _Tried, key: _Key, found: FlowFindings
) -> None:
    """Report the first of the earlier conditions that may hold together with this one."""
    for other in before:
        pair = (other.text, condition.text)
        if pair not in tried and len(tried) == MAX_PAIRS:
            found.warning(
                key,
                RAGError(
                    "is not compared with all conditions before it: the flow has more than {limit} "
                    "pairs of them",
                    limit=MAX_PAIRS,
                ),
            )
            return
        if pair not in tried:
            tried[pair] = find_overlap(other, condition)
        if (both := tried[pair]) is not None:
            values = ", ".join(f"{name} = {value!r}" for name, value in both.items())
            found.warning(
                key,
                RAGError(
                    "may hold together with “{other}” (for {values}); "
                    "the first in the file is taken",
                    other=other.text,
                    values=values,
                ),
            )
            return
