"""Graph rendering of a flow version as SVG, with the path of a run marked."""

from __future__ import annotations

from collections.abc import Mapping

from agents import models
from agents.core.draw_graph import START, GraphEdge, GraphNode, draw_graph
from agents.flows.definition.definition import END, Flow
from agents.flows.versions.load import load_flow


def render_flow_version(*, version: models.FlowVersion, run: models.FlowRun | None = None) -> str:
    """Return the graph of a version; with ``run`` its nodes' states and the edges it took.

    Raises InvalidInputError for a version whose YAML is no flow any more.
    """
    flow = load_flow(yaml=version.yaml, prompts=version.prompts)
    states, taken = _path(run) if run else ({}, set())
    return _drawn(flow, states, taken)


def render_flow_text(*, yaml: str, prompts: Mapping[str, str]) -> str:
    """Return the graph of a text that is not saved; raise InvalidInputError where it is none."""
    return _drawn(load_flow(yaml=yaml, prompts=prompts), {}, set())


def _drawn(flow: Flow, states: Mapping[str, str], taken: set[tuple[str, str]]) -> str:
    definition = flow.definition
    border = "done" if states else "border"
    nodes = [GraphNode(START, state=border)]
    nodes += [GraphNode(one.name, one.type, states.get(one.name, "")) for one in definition.nodes]
    edges = [GraphEdge(START, definition.entry_node, "", bool(states))]
    for edge in definition.edges:
        label = "" if edge.condition == "always" else edge.condition
        edges += [
            GraphEdge(edge.source, target, label, (edge.source, target) in taken)
            for target in edge.targets
        ]
    leaving = {edge.source for edge in definition.edges}
    edges += [
        GraphEdge(node.name, END, "", (node.name, END) in taken)
        for node in definition.nodes
        if node.name not in leaving
    ]
    reached = any(target == END for _, target in taken)
    nodes.append(GraphNode(END, state="done" if reached else "border"))
    return draw_graph(nodes, edges, definition.name)


def _path(run: models.FlowRun) -> tuple[dict[str, str], set[tuple[str, str]]]:
    states: dict[str, str] = {}
    taken: set[tuple[str, str]] = set()
    words = {"node_started": "running", "node_finished": "done", "node_failed": "failed"}
    rows = run.events.filter(kind__in=[*words, "route"]).order_by("seq")
    for node, kind, data in rows.values_list("node", "kind", "data"):
        if kind == "route":
            taken |= {(node, target) for target in data.get("targets", ())}
        else:
            states[node] = words[kind]
    states |= {one["node"]: "waiting" for one in run.reviews}
    return states, taken
