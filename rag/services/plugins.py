"""Plugins for edges: descriptions by kind, and instances by name and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlsplit

from rag.conf import Conf, conf
from rag.core.errors import ConfigurationError, ForbiddenError, InvalidInputError, UnknownNameError
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


_configured: dict[tuple[str, str], tuple[Conf, Any]] = {}


def configured_plugin(*, kind: str, name: str, options: Mapping[str, Any] | None = None) -> Any:
    """Return a plugin that settings choose by its name, made from settings.

    Its options are ``options``, those of ``RAG_PLUGIN_OPTIONS`` under ``kind.name``, and the
    settings that they name; a secret's name becomes its value. Without ``options`` there is one
    instance a process. Raises as ``make_plugin`` does.
    """
    known = _configured.get((kind, name))
    if not options and known and known[0] is conf() and type(known[1]) is PLUGINS.get(kind, name):
        return known[1]
    values = configured_options(kind=kind, name=name)
    made = make_plugin(kind=kind, name=name, options=values | dict(options or {}))
    if not options:
        _configured[kind, name] = (conf(), made)
    return made


def configured_options(*, kind: str, name: str) -> dict[str, Any]:
    """Return the options that settings give a plugin; a secret's name is its value."""
    values: dict[str, Any] = {}
    known = fields(PLUGINS.get(kind, name).Options)
    for field in known:
        if field.metadata.get("setting"):
            values[field.name] = getattr(conf(), field.metadata["setting"])
    values |= conf().plugin_options.get(f"{kind}.{name}", {})
    for field in known:
        if field.metadata.get("is_secret") and values.get(field.name):
            values[field.name] = secret_value(name=values[field.name])
    return values


def secret_value(*, name: str, url: str = "") -> str:
    """Return a secret of the installation; the error for an unknown one lists the names.

    ``{"value": …, "hosts": […]}`` in RAG_SECRETS goes to these hosts alone: ForbiddenError for
    another ``url``. Whoever may write an agent or a flow chooses where a source calls.
    """
    secrets = conf().secrets
    if name not in secrets:
        raise UnknownNameError("secret", name, secrets)
    known = secrets[name]
    if isinstance(known, str):
        return known
    if not isinstance(known, Mapping) or not known.keys() >= {"value", "hosts"}:
        raise ConfigurationError(
            "The secret “{name}” in RAG_SECRETS cannot be read.",
            hint="Write a text, or a value with hosts.",
            name=name,
        )
    host = urlsplit(url).hostname or "-"
    if host not in known["hosts"]:
        raise ForbiddenError(
            "The secret “{name}” may not be sent to {host}.",
            hint="Ask whoever runs the installation to add the host in RAG_SECRETS.",
            name=name,
            host=host,
        )
    return str(known["value"])


def _info(kind: str, name: str) -> PluginInfo:
    plugin = PLUGINS.get(kind, name)
    doc = getattr(plugin, "description", "") or (plugin.__doc__ or "").strip().partition("\n")[0]
    return PluginInfo(kind, name, plugin.label, doc, schema_of(plugin.Options), plugin.__module__)
