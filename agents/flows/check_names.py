"""Whether what a flow asks for was set before. In: a flow. Out: findings.

Conditions, queries of sources and references of nodes that ask files each have names of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import Any

from agents.core.state import FIELDS
from agents.flows.check_graph import upstream_of
from agents.flows.conditions import compile_condition
from agents.flows.definition import DEFAULT, Flow
from agents.flows.fill_prompt import placeholders
from agents.flows.finding import Findings
from agents.flows.node_configs import AgentNodeConfig, HumanReviewConfig
from agents.flows.node_outputs import START, START_LABEL
from agents.flows.rag_files_config import RagFilesConfig
from agents.flows.source_configs import DataSourceConfig, RagNodeConfig
from rag.core.errors import RAGError

_PLACEHOLDER = re.compile(r"\{[^\W\d]\w*\}")
_UNNAMED = re.compile(r"\W+")
# The options of our own sources in which {name} stands for a value.
_TEMPLATES = {"database": ("query_template",), "api": ("endpoint", "params", "headers", "body")}
_Upstream = dict[str, set[str]]


def check_names(flow: Flow, found: Findings) -> None:
    """Report what conditions, sources and references ask for and no node before them can set."""
    upstream = upstream_of(flow.definition)
    _check_conditions(flow, upstream, found)
    for number, node in enumerate(flow.definition.nodes):
        config, key = flow.configs[node.name], ("nodes", number, "config")
        if isinstance(config, AgentNodeConfig):
            prompt = flow.prompts.get(config.prompt, "")
            _check_text(flow, upstream[node.name], prompt, (*key, "prompt"), found)
        elif isinstance(config, HumanReviewConfig):
            _check_text(flow, upstream[node.name], config.message, (*key, "message"), found)
        elif isinstance(config, RagNodeConfig):
            _check_sources(flow, upstream[node.name], config, key, found)
        elif isinstance(config, RagFilesConfig):
            _check_references(flow, upstream[node.name] - {node.name}, config, key, found)


def _check_text(
    flow: Flow, before: Set[str], text: str, key: tuple[str | int, ...], found: Findings
) -> None:
    kinds = (RagNodeConfig, RagFilesConfig)
    results = {one.result_key for one in flow.configs.values() if isinstance(one, kinds)}
    given = {*FIELDS, *flow.definition.inputs, *results, "rag_context", "user_query"}
    for name in placeholders(text):
        if name not in given and not _is_set(flow, before, name):
            found.error(key, RAGError(
                "it has the placeholder “{name}”, which nothing fills: name it in a prompt before "
                "it or in the flow's inputs", name="{" + name + "}",
            ))  # fmt: skip


def _check_conditions(flow: Flow, upstream: _Upstream, found: Findings) -> None:
    given = {*FIELDS, *flow.definition.inputs}
    for number, edge in enumerate(flow.definition.edges):
        if edge.condition.strip() == DEFAULT:
            continue
        try:
            names = compile_condition(edge.condition).variables
        except RAGError:
            # Reported where edges are checked.
            continue
        for name in names:
            if name not in given and not _is_set(flow, upstream.get(edge.source, set()), name):
                found.error(("edges", number, "condition"), RAGError(
                    "no node before it sets “{name}”: name it in a prompt, an output_schema or "
                    "the flow's inputs", name=name,
                ))  # fmt: skip


def _check_sources(
    flow: Flow, before: Set[str], config: RagNodeConfig, key: tuple[Any, ...], found: Findings
) -> None:
    given = {*FIELDS, *flow.definition.inputs, "user_query"}
    for name in placeholders(config.query):
        if name not in given and not _is_set(flow, before, name):
            found.error((*key, "query"), _unfilled("query", name))
    for place, source in enumerate(config.data_sources):
        needed = [_UNNAMED.sub("_", one) for one in source.depends_on]
        for name in _placeholders_of(source):
            follows = any(name == one or name.startswith(f"{one}__") for one in needed)
            if name not in given and not follows and not _is_set(flow, before, name):
                found.error((*key, "data_sources", place), _unfilled(source.key, name))


def _check_references(
    flow: Flow, before: Set[str], config: RagFilesConfig, key: tuple[Any, ...], found: Findings
) -> None:
    nodes = {START, START_LABEL, *before}
    for name in before:
        other = flow.configs[name]
        nodes |= {other.label} if isinstance(other, RagFilesConfig) else set()
    given = {*flow.definition.inputs, "user_input", "user_query", "output", "response_content"}
    for slot, path in config.inputMappings.paths():
        head = re.split(r"[.\[]", path)[0]
        is_node = any(path.startswith((f"{one}.", f"{one}[")) or path == one for one in nodes)
        if not is_node and head not in given and not _is_set(flow, before, head):
            found.error((*key, "inputMappings", slot), RAGError(
                "“{path}” refers to no node before it and to no input; known: {known}",
                path=path, known=", ".join(sorted({*nodes, *flow.definition.inputs})),
            ))  # fmt: skip


def _is_set(flow: Flow, before: Set[str], name: str) -> bool:
    return any(_sets(flow, node, name) for node in before)


def _sets(flow: Flow, node: str, name: str) -> bool:
    config = flow.configs[node]
    if isinstance(config, AgentNodeConfig):
        if name == "parse_error":
            return True
        properties = (config.output_schema or {}).get("properties", {})
        # What a prompt asks for, its own placeholders apart, the model may set.
        words = rf"(?<!\w){re.escape(name)}(?!\w)"
        text = _PLACEHOLDER.sub("", flow.prompts.get(config.prompt, ""))
        return name in properties or bool(re.search(words, text))
    if isinstance(config, RagFilesConfig):
        return name in (node, config.result_key)
    return name == getattr(config, "result_key", None)


def _placeholders_of(source: DataSourceConfig) -> Iterator[str]:
    templates = _TEMPLATES.get(source.type, ())
    waiting: list[Any] = [source.options.get(name) for name in templates]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield from placeholders(value)
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _unfilled(source: str, name: str) -> RAGError:
    return RAGError(
        "“{source}” has the placeholder “{name}”, which nothing fills: name it in the flow's "
        "inputs",
        source=source, name="{" + name + "}",
    )  # fmt: skip
