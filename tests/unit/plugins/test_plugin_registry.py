"""The registry: what it takes in, what it refuses and how it says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rag.core import plugins
from rag.core.errors import ConfigurationError, UnknownNameError
from rag.core.options import option
from rag.core.plugins import METHODS, PluginRegistry, register


def make(name: Any = "files", module: str = "shop.sources", **parts: Any) -> type[Any]:
    @dataclass
    class Options:
        top_k: int = option(5, help="How many.")

    given = {"name": name, "label": "Files", "Options": Options, "retrieve": lambda *_: None}
    return type("Files", (), {**given, "__module__": module, **parts})


@pytest.fixture
def registry() -> PluginRegistry:
    return PluginRegistry()


def test_a_plugin_is_found_by_its_name(registry: PluginRegistry) -> None:
    first, second = make("files"), make("rows")
    registry.add("source", second)
    registry.add("source", first)
    assert registry.get("source", "files") is first
    assert list(registry.names("source")) == ["files", "rows"]
    assert list(registry.names("enhancer")) == []


def test_an_unknown_name_lists_the_known_ones(registry: PluginRegistry) -> None:
    registry.add("source", make("files"))
    registry.add("source", make("rows"))
    with pytest.raises(UnknownNameError, match="Unknown source “filez”. Known: files, rows."):
        registry.get("source", "filez")
    with pytest.raises(UnknownNameError, match="Unknown enhancer “x”. Known: none."):
        registry.get("enhancer", "x")


def test_an_unknown_kind_lists_the_kinds(registry: PluginRegistry) -> None:
    said = f"Unknown plugin kind “sauce”. Known: {', '.join(sorted(METHODS))}."
    for use in (
        lambda: registry.add("sauce", make()),
        lambda: registry.get("sauce", "files"),
        lambda: registry.names("sauce"),
    ):
        with pytest.raises(UnknownNameError, match=said):
            use()


def test_a_second_class_of_a_name_is_an_error_that_names_both(registry: PluginRegistry) -> None:
    first = make()
    registry.add("source", first)
    with pytest.raises(ConfigurationError) as caught:
        registry.add("source", make(module="barn.sources"))
    assert str(caught.value) == (
        "Two plugins have the source name “files”: shop.sources.Files and barn.sources.Files."
        " Rename one of them."
    )
    assert registry.get("source", "files") is first


def test_a_name_is_free_in_another_kind(registry: PluginRegistry) -> None:
    registry.add("source", make())
    enhancer = make(module="barn.sources", enhance=lambda *_: "")
    registry.add("enhancer", enhancer)
    assert registry.get("enhancer", "files") is enhancer


def test_a_module_that_is_loaded_again_replaces_its_class(registry: PluginRegistry) -> None:
    registry.add("source", make())
    again = make()
    registry.add("source", again)
    assert registry.get("source", "files") is again


@pytest.mark.parametrize(
    "name", ["", "Files", "my-files", "1st", "文件", "a" * 41, "a b", "a\n", None, 7]
)
def test_a_name_must_be_an_identifier(registry: PluginRegistry, name: Any) -> None:
    with pytest.raises(ConfigurationError, match="shop.sources.Files has the name"):
        registry.add("source", make(name))


@pytest.mark.parametrize("part", ["label", "Options", "retrieve"])
def test_a_missing_part_is_named(registry: PluginRegistry, part: str) -> None:
    plugin = make()
    delattr(plugin, part)
    with pytest.raises(ConfigurationError, match=f"The plugin shop.sources.Files has no “{part}”"):
        registry.add("source", plugin)


def test_each_kind_has_its_method(registry: PluginRegistry) -> None:
    assert METHODS == {
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
    with pytest.raises(ConfigurationError, match="has no “enhance”"):
        registry.add("enhancer", make())
    with pytest.raises(ConfigurationError, match="has no “description”"):
        registry.add("tool", make(run=lambda *_: {}))


def test_options_that_cannot_be_read_are_the_authors_mistake(registry: PluginRegistry) -> None:
    @dataclass
    class Options:
        when: bytes = b""

    for wrong in (Options, dict, object()):
        with pytest.raises(
            ConfigurationError, match="options of the plugin .*Files cannot be read"
        ):
            registry.add("source", make(Options=wrong))


def test_the_decorator_files_and_returns_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "PLUGINS", PluginRegistry())
    plugin = make()
    assert register("source")(plugin) is plugin
    assert plugins.PLUGINS.get("source", "files") is plugin
