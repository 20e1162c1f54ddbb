"""Plugins for edges: descriptions by kind, and instances by name and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rag.core.errors import InvalidInputError
from rag.core.options import read_options, schema_of
from rag.core.plugins import METHODS, PLUGINS
from rag.plugins.load import PluginFailure, load_plugins


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin as edges show it: ``label`` may be lazily translated, ``schema`` is JSON schema."""

    kind: str
    name: str
    label: Any
    description: str
    schema: Mapping[str, Any]
    module: str


@dataclass(frozen=True, slots=True)
class PluginList:
    """All plugins, by kind and name, and the modules whose plugins are not there."""

    plugins: tuple[PluginInfo, ...]
    failures: tuple[PluginFailure, ...]


def list_plugins(*, kind: str = "") -> PluginList:
    """Return the plugins of one kind, or of all; an unknown kind is an UnknownNameError."""
    failures = tuple(load_plugins())
    kinds = [kind] if kind else list(METHODS)
    return PluginList(
        tuple(_info(one, name) for one in kinds for name in PLUGINS.names(one)), failures
    )


def make_plugin(*, kind: str, name: str, options: Mapping[str, Any] | None = None) -> Any:
    """Return a new instance of a plugin, made from checked options.

    A tool is made without options: its arguments come with each call. Raises UnknownNameError
    for a kind, name or option nobody knows, InvalidInputError for an option that does not fit.
    """
    plugin = PLUGINS.get(kind, name)
    if kind != "tool":
        return plugin(read_options(plugin.Options, options or {}, of=name))
    if options:
        raise InvalidInputError("The tool {name} has no options, only arguments.", name=name)
    return plugin()


def _info(kind: str, name: str) -> PluginInfo:
    plugin = PLUGINS.get(kind, name)
    doc = getattr(plugin, "description", "") or (plugin.__doc__ or "").strip().partition("\n")[0]
    return PluginInfo(kind, name, plugin.label, doc, schema_of(plugin.Options), plugin.__module__)
