"""Static check of variables: whatever is used was set by a node before."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from agents.core.prompts import placeholders
from agents.core.source_configs import RagNodeConfig, texts_in
from agents.core.state import FIELDS
from agents.flows.definition.check_graph import ancestors_of
from agents.flows.definition.conditions import compile_condition
from agents.flows.definition.definition import DEFAULT, FAILURE, Flow
from agents.flows.definition.findings import FlowFindings
from agents.flows.definition.node_configs import AgentNodeConfig, NodeOptions, RagFilesConfig
from agents.flows.definition.state import START, START_LABEL
from rag.core.errors import RAGError

_PLACEHOLDER = re.compile(r"\{[^\W\d]\w*\}")
_WORD = re.compile(r"\w+")
_UNNAMED = re.compile(r"\W+")
# Fields of every state, and what the engine sets where a node failed.
_ALWAYS = (*FIELDS, "failed_node", "failure")


@dataclass(frozen=True, slots=True)
class _Before:
    """The nodes before a place, and the words and prompts by which they can set names."""

    nodes: Set[str]
    names: Collection[tuple[frozenset[str], str]]

    def unset(self, asked: Iterable[str], given: Iterable[str]) -> list[str]:
        """Return the names that are neither given nor can be set before."""
        return [name for name in asked if name not in given and not self._sets(name)]

    def _sets(self, name: str) -> bool:
        # Chinese puts no space around a name.
        return any(
            name in words or (not name.isascii() and name in text) for words, text in self.names
        )


def check_variables(flow: Flow, found: FlowFindings) -> None:
    """Report what conditions, sources and references ask for and no node before them can set."""
    before = _all_before(flow)
    _check_conditions(flow, before, found)
    for number, node in enumerate(flow.definition.nodes):
        config, key = flow.configs[node.name], ("nodes", number, "config")
        if isinstance(config, NodeOptions) and (inner := config.inner()):
            for name, value in config.texts().items():
                for text in texts_in(value):
                    _check_text(flow, before[node.name], text, (*key, name), found)
            config = inner[1]
        if isinstance(config, AgentNodeConfig):
            prompt = flow.prompts.get(config.prompt, "")
            _check_text(flow, before[node.name], prompt, (*key, "prompt"), found)
        elif isinstance(config, NodeOptions) and not isinstance(config, RagFilesConfig):
            for name, value in config.texts().items():
                for text in texts_in(value):
                    _check_text(flow, before[node.name], text, (*key, name), found)
        elif isinstance(config, RagNodeConfig):
            _check_sources(flow, before[node.name], config, key, found)
        elif isinstance(config, RagFilesConfig):
            others = before[node.name].nodes - {node.name}
            _check_references(flow, replace(before[node.name], nodes=others), config, key, found)


def _all_before(flow: Flow) -> dict[str, _Before]:
    # A model may set what its prompt asks for, the prompt's own placeholders apart.
    texts = {path: _PLACEHOLDER.sub("", text) for path, text in flow.prompts.items()}
    # Nodes often share a prompt: its words are looked at once.
    asked = {path: (frozenset(_WORD.findall(text)), text) for path, text in texts.items()}
    names = {node: [(_own_names(node, one), "")] for node, one in flow.configs.items()}
    for node, config in flow.configs.items():
        inner = config.inner() if isinstance(config, NodeOptions) else None
        asking = inner[1] if inner else config
        if isinstance(asking, AgentNodeConfig) and asking.prompt in asked:
            names[node].append(asked[asking.prompt])
    return {
        node: _Before(nodes, {part for one in nodes for part in names[one]})
        for node, nodes in ancestors_of(flow.definition).items()
    }


def _own_names(node: str, config: BaseModel) -> frozenset[str]:
    """Return what a node sets whatever a prompt says."""
    if isinstance(config, RagFilesConfig):
        return frozenset({node, config.result_key})
    if isinstance(config, NodeOptions):
        return config.sets()
    return frozenset(filter(None, [getattr(config, "result_key", None)]))


def _check_text(
    flow: Flow, before: _Before, text: str, key: tuple[str | int, ...], found: FlowFindings
) -> None:
    kinds = (RagNodeConfig, RagFilesConfig)
    results = {one.result_key for one in flow.configs.values() if isinstance(one, kinds)}
    given = {*_ALWAYS, *flow.definition.inputs, *results, "rag_context", "user_query"}
    for name in before.unset(placeholders(text), given):
        found.error(
            key,
            RAGError(
                "it has the placeholder “{name}”, which nothing fills: name it in a prompt "
                "before it or in the flow's inputs",
                name="{" + name + "}",
            ),
        )


def _check_conditions(flow: Flow, before: Mapping[str, _Before], found: FlowFindings) -> None:
    given = {*_ALWAYS, *flow.definition.inputs}
    for number, edge in enumerate(flow.definition.edges):
        if edge.condition.strip() in (DEFAULT, FAILURE):
            continue
        try:
            names = compile_condition(edge.condition).variables
        except RAGError:
            # Reported where edges are checked.
            continue
        for name in before[edge.source].unset(names, given):
            found.error(
                ("edges", number, "condition"),
                RAGError(
                    "no node before it sets “{name}”: name it in a prompt, an output_schema or "
                    "the flow's inputs",
                    name=name,
                ),
            )


def _check_sources(
    flow: Flow, before: _Before, config: RagNodeConfig, key: tuple[Any, ...], found: FlowFindings
) -> None:
    given = {*_ALWAYS, *flow.definition.inputs, "user_query"}
    for name in before.unset(placeholders(config.query), given):
        found.error((*key, "query"), _unfilled("query", name))
    for place, source in enumerate(config.data_sources):
        needed = [_UNNAMED.sub("_", one) for one in source.depends_on]
        for name in before.unset(source.placeholders(), given):
            if not any(name == one or name.startswith(f"{one}__") for one in needed):
                found.error((*key, "data_sources", place), _unfilled(source.key, name))


def _check_references(
    flow: Flow, before: _Before, config: RagFilesConfig, key: tuple[Any, ...], found: FlowFindings
) -> None:
    nodes = {START, START_LABEL, *before.nodes}
    for name in before.nodes:
        other = flow.configs[name]
        nodes |= {other.label} if isinstance(other, RagFilesConfig) else set()
    given = {*flow.definition.inputs, "user_input", "user_query", "output", "response_content"}
    for slot, path in config.inputMappings.paths():
        head = re.split(r"[.\[]", path)[0]
        is_node = any(path.startswith((f"{one}.", f"{one}[")) or path == one for one in nodes)
        if not is_node and before.unset([head], given):
            found.error(
                (*key, "inputMappings", slot),
                RAGError(
                    "“{path}” refers to no node before it and to no input; known: {known}",
                    path=path,
                    known=", ".join(sorted({*nodes, *flow.definition.inputs})),
                ),
            )


def _unfilled(source: str, name: str) -> RAGError:
    return RAGError(
        "“{source}” has the placeholder “{name}”, which nothing fills: name it in the flow's "
        "inputs",
        source=source,
        name="{" + name + "}",
    )
