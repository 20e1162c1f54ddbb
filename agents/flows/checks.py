"""What is wrong with a flow before it runs. In: a flow, what there is. Out: findings in order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from agents.core.state import FIELDS
from agents.flows.check_edges import check_edges
from agents.flows.check_graph import check_graph, upstream_of
from agents.flows.conditions import compile_condition
from agents.flows.definition import DEFAULT, Flow
from agents.flows.fill_prompt import placeholders
from agents.flows.finding import Finding, Findings
from agents.flows.node_configs import AgentNodeConfig, HumanReviewConfig
from agents.flows.source_configs import DataSourceConfig, RagNodeConfig
from rag.core.errors import RAGError

# What a prompt may always name.
PROMPT_NAMES = frozenset({"rag_context", "user_query", *FIELDS})


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a flow may rely on: each raises a RAGError for what is not there."""

    check_source: Callable[[DataSourceConfig], None]
    check_model: Callable[[str], None]
    check_tool: Callable[[str], None]


def check_flow(flow: Flow, surroundings: Surroundings) -> list[Finding]:
    """Return all findings, errors and warnings, by their place in the file.

    A flow with errors must not be activated.
    """
    found = Findings(flow.located)
    is_sound = check_graph(flow.definition, found)
    check_edges(flow.definition, found)
    for number, node in enumerate(flow.definition.nodes):
        _check_node(flow, number, flow.configs[node.name], found, surroundings)
    if is_sound:
        _check_variables(flow, found)
    return found.in_order()


def _check_node(
    flow: Flow, number: int, config: object, found: Findings, surroundings: Surroundings
) -> None:
    key = ("nodes", number, "config")
    if isinstance(config, AgentNodeConfig):
        _check_prompt(flow, config.prompt, (*key, "prompt"), found)
        if config.model:
            with found.reporting((*key, "model")):
                surroundings.check_model(config.model.id)
        for place, tool in enumerate(config.tools):
            with found.reporting((*key, "tools", place)):
                surroundings.check_tool(tool)
    if isinstance(config, RagNodeConfig):
        for place, source in enumerate(config.data_sources):
            with found.reporting((*key, "data_sources", place)):
                surroundings.check_source(source)


def _check_prompt(flow: Flow, path: str, key: tuple[str | int, ...], found: Findings) -> None:
    if path not in flow.prompts:
        known = ", ".join(sorted(flow.prompts)) or "none"
        found.error(key, "there is no prompt “{path}”; known: {known}", path=path, known=known)
        return
    known_names = PROMPT_NAMES | set(flow.definition.inputs) | _result_keys(flow)
    for name in placeholders(flow.prompts[path]):
        if name not in known_names:
            found.error(
                key, "the prompt “{path}” has the placeholder “{name}”, which nothing fills",
                path=path, name="{" + name + "}",
            )  # fmt: skip


def _check_variables(flow: Flow, found: Findings) -> None:
    """Report conditions that ask for what no node before them can have set."""
    upstream = upstream_of(flow.definition)
    given = {*FIELDS, *flow.definition.inputs}
    for number, edge in enumerate(flow.definition.edges):
        if edge.condition == DEFAULT:
            continue
        try:
            names = compile_condition(edge.condition).variables
        except RAGError:
            continue
        before = [flow.configs[name] for name in upstream.get(edge.source, ())]
        for name in names:
            if name not in given and not any(_sets(flow, config, name) for config in before):
                found.error(
                    ("edges", number, "condition"),
                    "no node before it sets “{name}”: name it in a prompt, an output_schema or "
                    "the flow's inputs", name=name,
                )  # fmt: skip


def _sets(flow: Flow, config: object, name: str) -> bool:
    if isinstance(config, AgentNodeConfig):
        if name == "parse_error":
            return True
        properties = (config.output_schema or {}).get("properties", {})
        words = rf"(?<!\w){re.escape(name)}(?!\w)"
        return name in properties or bool(re.search(words, flow.prompts.get(config.prompt, "")))
    return name == getattr(config, "result_key", None)


def _result_keys(flow: Flow) -> set[str]:
    kinds = (RagNodeConfig, HumanReviewConfig)
    return {config.result_key for config in flow.configs.values() if isinstance(config, kinds)}
