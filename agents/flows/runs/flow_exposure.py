"""Exposure of a flow: hosts that its nodes call, reviewers they show texts, where they look."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from agents import models
from agents.flows.definition.definition import Flow, NodeDefinition
from agents.flows.definition.node_configs import SLOTS, NodeOptions
from agents.runtime.outbound import Exposure, exposure_of
from rag.core.access import Scope
from rag.core.errors import NotFoundError
from rag.core.plugins import PLUGINS, outbound_hosts
from rag.services.stores import find_stores

# Not a host: people who may decide the reviews of others' runs.
REVIEWERS = "reviewers"
_STORES = ("collection", "store")
_LISTS = ("collections", "stores")
_OF_RUNNER = "start."


def flow_exposure(
    *, flow: models.Flow, definition: Flow, scope: Scope, chunk_ids: Collection[int] = ()
) -> Exposure:
    """Return what a flow could tell whom of what ``scope`` may read.

    ``chunk_ids`` are what the conversation before it and memories rest on.
    """
    plugins = list(_plugins(definition))
    files = [node.config for node in _nodes(definition) if node.type == "rag_files"]
    found = [outbound_hosts(plugin, options) for plugin, options in plugins]
    hosts = {host for one in found for host in one} | set(_addressees(definition))
    options = [one for one in _options(definition) if isinstance(one, NodeOptions)]
    hosts |= {host for one in options for host in one.hosts()}
    # What a flow inside reads is known when it is run: it may be anything.
    has_flows = any(one.flows() for one in options)
    reading = [options for plugin, options in plugins if not outbound_hosts(plugin, options)]
    if not hosts or not (reading or files or chunk_ids or has_flows):
        return Exposure()
    return exposure_of(
        subject=flow,
        authors=[flow],
        hosts=frozenset(hosts),
        scope=scope,
        store_ids=None if has_flows else _store_ids([*reading, *files], scope),
        chunk_ids=chunk_ids,
    )


def _nodes(definition: Flow) -> Iterator[NodeDefinition]:
    """Yield the nodes, and those that they run inside."""
    for node in definition.definition.nodes:
        yield node
        inner = node.config.get("node")
        if isinstance(inner, dict) and "type" in inner:
            yield NodeDefinition(
                name=node.name, type=inner["type"], config=inner.get("config") or {}
            )


def _options(definition: Flow) -> Iterator[Any]:
    """Yield the options of the nodes, and of those that they run inside."""
    for config in definition.configs.values():
        if isinstance(config, NodeOptions):
            yield config
            if inner := config.inner():
                yield inner[1]


def _plugins(definition: Flow) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    for node in _nodes(definition):
        for one in node.config.get("data_sources") or ():
            yield PLUGINS.get("source", str(one.get("type"))), one
        for one in node.config.get("tools") or ():
            if isinstance(one, str):
                yield PLUGINS.get("tool", one), {}
            elif "mcp" not in one:
                yield PLUGINS.get("source", str(one.get("type"))), one


def _addressees(definition: Flow) -> Iterator[str]:
    for node in _nodes(definition):
        shows = "{" in str(node.config.get("message") or "") or node.config.get("editable")
        if node.type == "human_review" and shows:
            yield REVIEWERS
        mappings = node.config.get("inputMappings") or {}
        given = (str(mappings.get(slot) or "").strip("{} ") for slot in SLOTS)
        if node.type == "rag_files" and any(
            path and not path.startswith(_OF_RUNNER) for path in given
        ):
            # Addresses that an earlier node made are fetched.
            yield "*"


def _store_ids(reading: list[Mapping[str, Any]], scope: Scope) -> set[int] | None:
    """Return the stores that are named, None where a node looks into whatever it may."""
    ids: set[int] = set()
    for options in reading:
        names = [options[name] for name in _STORES if options.get(name)]
        names += [one for name in _LISTS for one in options.get(name) or ()]
        names += [options["fileSearchStoreName"]] if options.get("fileSearchStoreName") else []
        if not names or any("{" in str(name) for name in names):
            return None
        for name in names:
            try:
                ids |= {store.pk for store in find_stores(names=[str(name)], scope=scope)}
            except NotFoundError:
                # A run tells that it is not there for whoever runs it.
                continue
    return ids
