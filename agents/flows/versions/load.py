"""A version ready to run. In: a row, or YAML and prompts. Out: a flow, its graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from agents import models
from agents.core.nodes import node_configs
from agents.flows.definition.archive import FlowFiles
from agents.flows.definition.definition import Flow, read_flow

if TYPE_CHECKING:
    from agents.flows.engine.graph import FlowGraph


def read_flow_text(*, yaml: str, prompts: Mapping[str, str], name: str = "flow.yaml") -> Flow:
    """Return the flow of a text; raise InvalidInputError for the first mistake with its place."""
    return read_flow(yaml, node_configs(), prompts=prompts, name=name)


def graph_of(*, version: models.FlowVersion) -> FlowGraph:
    """Return the compiled graph of a version, made once a process."""
    return graph_of_files(files=FlowFiles(version.yaml, version.prompts))


def graph_of_files(*, files: FlowFiles) -> FlowGraph:
    """Return the compiled graph of a flow that is no row, made once a process."""
    prompts = json.dumps(dict(files.prompts), sort_keys=True, ensure_ascii=False)
    return _graph(files.yaml, prompts)


@lru_cache(maxsize=128)
def _graph(yaml: str, prompts: str) -> FlowGraph:
    # LangGraph takes 0.9 s and 71 MB: only where a flow runs.
    from agents.flows.engine.graph import GraphBuilder

    return GraphBuilder(read_flow_text(yaml=yaml, prompts=json.loads(prompts))).build()
