"""Static check of a flow's graph: unreachable nodes, dead ends, unbounded cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agents.flows.definition.definition import END, FlowDefinition
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
    return RAGError("there is no node “{name}”; known: {known}", name=name, known=known)


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
