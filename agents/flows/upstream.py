"""Which nodes a node must wait for. In: a definition. Out: pairs, one strictly before the other."""

from __future__ import annotations

from collections.abc import Mapping

from agents.flows.check_graph import upstream_of
from agents.flows.definition import FlowDefinition


def strictly_before(flow: FlowDefinition) -> Mapping[str, frozenset[str]]:
    """Return for each node those from which a path leads to it, but none back.

    While one of these is still at work, it may yet come to the node: a node where branches join
    waits for it. Nodes on one cycle never wait for each other.
    """
    before = upstream_of(flow)
    return {
        name: frozenset(other for other in names - {name} if name not in before[other])
        for name, names in before.items()
    }
