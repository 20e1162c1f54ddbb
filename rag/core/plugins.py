"""Plugin registry: classes by kind and name, ours and third parties' alike.

Importing a module registers its plugins; ``rag.plugins.load`` imports them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from rag.core.errors import ConfigurationError, UnknownNameError
from rag.core.options import schema_of

C = TypeVar("C", bound=type)
# The method of each kind; connectors have more.
METHODS = {
    "source": "retrieve",
    "enhancer": "enhance",
    "tool": "run",
    "reranker": "rerank",
    "embedding": "load",
    "chat": "load",
    "parser": "parse",
    "splitter": "split",
    "connector": "list",
}
# The kinds that settings choose by name.
CONFIGURED = ("reranker", "embedding", "chat", "parser", "splitter")
_ALSO = {
    "tool": ("description",),
    "parser": ("kinds",),
    "connector": ("since", "fetch", "permissions"),
}
# What a choice of that kind means beside the plugins.
_RESERVED = {"reranker": ("none", "mixed")}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class PluginRegistry:
    """The plugins of one process, by kind and name."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, type[Any]]] = {kind: {} for kind in METHODS}

    def add(self, kind: str, plugin: type[Any]) -> None:
        """File a class; raise ConfigurationError when it lacks a part or its name is taken."""
        found = self._of(kind)
        name, place = getattr(plugin, "name", ""), f"{plugin.__module__}.{plugin.__qualname__}"
        is_name = isinstance(name, str) and _NAME.fullmatch(name)
        if not is_name or name in _RESERVED.get(kind, ()):
            raise ConfigurationError(
                "The plugin {place} has the name “{name}”.",
                hint="Lower-case letters, digits and _, at most 40.",
                place=place,
                name=name,
            )
        for part in ("label", "Options", METHODS[kind], *_ALSO.get(kind, ())):
            if not hasattr(plugin, part):
                raise ConfigurationError(
                    "The plugin {place} has no “{part}”.", place=place, part=part
                )
        try:
            schema_of(plugin.Options)
        except TypeError as error:
            raise ConfigurationError(
                "The options of the plugin {place} cannot be read: {reason}.",
                place=place,
                reason=error,
            ) from error
        taken = found.get(name)
        if taken and (taken.__module__, taken.__qualname__) != (
            plugin.__module__,
            plugin.__qualname__,
        ):
            raise ConfigurationError(
                "Two plugins have the {kind} name “{name}”: {first} and {second}.",
                hint="Rename one of them.",
                kind=kind,
                name=name,
                first=f"{taken.__module__}.{taken.__qualname__}",
                second=place,
            )
        found[name] = plugin

    def get(self, kind: str, name: str) -> type[Any]:
        """Return the class; an unknown name is an UnknownNameError that lists the known ones."""
        found = self._of(kind)
        if name not in found:
            raise UnknownNameError(kind, name, found)
        return found[name]

    def names(self, kind: str) -> Iterator[str]:
        """Return the names of a kind, in order."""
        return iter(sorted(self._of(kind)))

    def _of(self, kind: str) -> dict[str, type[Any]]:
        if kind not in METHODS:
            raise UnknownNameError("plugin kind", kind, METHODS)
        return self._found[kind]


PLUGINS = PluginRegistry()


def register(kind: str) -> Callable[[C], C]:
    """Return a class decorator that files a plugin: ``@register("source")``."""

    def file(plugin: C) -> C:
        PLUGINS.add(kind, plugin)
        return plugin

    return file


def outbound_hosts(plugin: Any, options: Mapping[str, Any]) -> frozenset[str]:
    """Return the hosts that a plugin with these options calls; ``plugin:NAME`` for unknown ones.

    A plugin says so by ``hosts``: hosts, or a static method that takes the options and returns
    them; none for one that stays within the installation. Who says nothing may call anybody.
    """
    told = getattr(plugin, "hosts", None)
    if told is None:
        return frozenset({f"plugin:{plugin.name}"})
    return frozenset(told(options) if callable(told) else told)
