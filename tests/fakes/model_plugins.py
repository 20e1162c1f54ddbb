"""Model providers of tests and benchmarks: a plugin class around a function that makes a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest

from rag.core.plugins import PLUGINS


@dataclass(frozen=True)
class NoOptions:
    """No options."""


def fake_provider(name: str, make: Callable[[str], Any] | str) -> type[Any]:
    """Return a provider whose models ``make`` returns by their names; it may be a dotted path."""

    def load(self: Any, model: str) -> Any:
        if not isinstance(make, str):
            return make(model)
        module, _, attribute = make.rpartition(".")
        return getattr(import_module(module), attribute)(model)

    parts = {"name": name, "label": name, "Options": NoOptions, "load": load}
    return type("Fake", (), {**parts, "__init__": lambda self, options: None})


def use_provider(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str, make: Callable[[str], Any] | str
) -> None:
    """File a provider of embedding or chat models until the test ends."""
    monkeypatch.setitem(PLUGINS._found[kind], name, fake_provider(name, make))


def let_be_remote(monkeypatch: pytest.MonkeyPatch, kind: str, name: str) -> None:
    """Let a filed provider ask a service, whose speed is not known before it is asked."""
    monkeypatch.setattr(PLUGINS.get(kind, name), "is_remote", True, raising=False)
