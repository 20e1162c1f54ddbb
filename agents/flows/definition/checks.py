"""Flow linter: runs all static checks of a flow and returns findings in file order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.core.source_configs import DataSourceConfig, McpServerConfig, RagNodeConfig
from agents.flows.definition.check_graph import check_edges, check_graph
from agents.flows.definition.check_variables import check_variables
from agents.flows.definition.definition import Flow
from agents.flows.definition.findings import FlowFinding, FlowFindings
from agents.flows.definition.node_configs import AgentNodeConfig, NodeOptions, RagFilesConfig
from rag.core.errors import RAGError


@dataclass(frozen=True, slots=True)
class FlowEnvironment:
    """What a flow may rely on: each raises a RAGError for what is not there."""

    check_source: Callable[[DataSourceConfig], None]
    check_model: Callable[[str], None]
    check_tool: Callable[[str], object]
    check_files: Callable[[RagFilesConfig], None]
    check_server: Callable[[McpServerConfig], None]
    # The name of the flow itself, and of one that it runs.
    check_flow: Callable[[str, str], None]


def check_flow(flow: Flow, surroundings: FlowEnvironment) -> list[FlowFinding]:
    """Return all findings, errors and warnings, by their place in the file.

    A flow with errors must not be activated.
    """
    found = FlowFindings(flow.located)
    is_sound = check_graph(flow.definition, found)
    check_edges(flow.definition, found)
    for number, node in enumerate(flow.definition.nodes):
        config: object = flow.configs[node.name]
        _check_node(flow, number, config, found, surroundings)
        if isinstance(config, NodeOptions) and (inner := config.inner()):
            _check_node(flow, number, inner[1], found, surroundings)
    if is_sound:
        check_variables(flow, found)
    return found.in_order()


def _check_node(
    flow: Flow, number: int, config: object, found: FlowFindings, surroundings: FlowEnvironment
) -> None:
    key = ("nodes", number, "config")
    asked = [getattr(config, "model", None), *getattr(config, "fallback_models", ())]
    for model in filter(None, asked):
        with found.reporting((*key, "model")):
            surroundings.check_model(model.id)
    if isinstance(config, AgentNodeConfig):
        _check_prompt(flow, config.prompt, (*key, "prompt"), found)
        for place, tool in enumerate(config.tools):
            with found.reporting((*key, "tools", place)):
                if isinstance(tool, str):
                    surroundings.check_tool(tool)
                elif isinstance(tool, McpServerConfig):
                    surroundings.check_server(tool)
                else:
                    surroundings.check_source(tool)
    for name in config.flows() if isinstance(config, NodeOptions) else ():
        with found.reporting((*key, "flow")):
            surroundings.check_flow(flow.definition.name, name)
    if isinstance(config, RagNodeConfig):
        for place, source in enumerate(config.data_sources):
            with found.reporting((*key, "data_sources", place)):
                surroundings.check_source(source)
    if isinstance(config, RagFilesConfig):
        with found.reporting(key):
            surroundings.check_files(config)


def _check_prompt(flow: Flow, path: str, key: tuple[str | int, ...], found: FlowFindings) -> None:
    if path not in flow.prompts:
        known = ", ".join(sorted(flow.prompts)) or "none"
        found.error(
            key, RAGError("there is no prompt “{path}”; known: {known}", path=path, known=known)
        )
