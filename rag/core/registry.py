"""Lazy registry of providers by name; an unknown name is an error that lists the known ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

from rag.core.errors import ConfigurationError, UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """Classes by name, imported when first asked for, so that unused vendors cost nothing."""

    def __init__(self, kind: str, paths: Mapping[str, str]) -> None:
        self.kind = kind
        self._paths = dict(paths)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._paths))

    def get(self, name: str) -> Any:
        """Return the object at the dotted path filed under ``name``."""
        if name not in self._paths:
            raise UnknownNameError(self.kind, name, self._paths)
        module, _, attribute = self._paths[name].rpartition(".")
        try:
            return getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(
                "The {kind} “{name}” cannot be loaded: {reason}.",
                hint="Check that its package is installed.",
                kind=self.kind,
                name=name,
                reason=error,
            ) from error
