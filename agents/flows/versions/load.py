"""Flow loading: a version, or YAML with prompts, as a flow and its compiled graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from agents import models
from agents.core.nodes import node_configs
from agents.flows.definition.archive import FlowFiles
from agents.flows.definition.definition import Flow, parse_flow

if TYPE_CHECKING:
    from agents.flows.engine.graph import FlowGraph


def load_flow(*, yaml: str, prompts: Mapping[str, str], name: str = "flow.yaml") -> Flow:
    """Return the flow of a text; raise InvalidInputError for the first mistake with its place."""
    return parse_flow(yaml, node_configs(), prompts=prompts, name=name)


def compiled_graph(*, version: models.FlowVersion) -> FlowGraph:
    """Return the compiled graph of a version, made once a process."""
    return compiled_graph_of_files(files=FlowFiles(version.yaml, version.prompts))


def compiled_graph_of_files(*, files: FlowFiles) -> FlowGraph:
    """Return the compiled graph of a flow that is no row, made once a process."""
    prompts = json.dumps(dict(files.prompts), sort_keys=True, ensure_ascii=False)
    return _graph(files.yaml, prompts)


@lru_cache(maxsize=128)
def _graph(yaml: str, prompts: str) -> FlowGraph:
    # LangGraph takes 0.9 s and 71 MB: only where a flow runs.
    from agents.flows.engine.graph import GraphBuilder

    return GraphBuilder(load_flow(yaml=yaml, prompts=json.loads(prompts))).build()
