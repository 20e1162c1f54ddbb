"""Model providers through the registry: names, options from settings, what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rag.core.errors import ConfigurationError, InvalidInputError, UnknownNameError
from rag.core.options import option
from rag.core.plugins import PLUGINS, PluginRegistry
from rag.core.types import RetrievalSettings, rerank_methods
from rag.services.plugins import configured_plugin
from rag.services.wiring import registry as wiring
from tests.fakes.model_plugins import fake_provider, use_provider


class Marked:
    name, label = "marked", "Marked"

    @dataclass(frozen=True)
    class Options:
        mark: str = option("", help="A mark.")
        key: str = option("", help="A key.", is_secret=True)
        seconds: float = option(1.0, help="Time.", setting="timeout_s")

    def __init__(self, options: Options) -> None:
        self.options = options

    def rerank(self, query: str, texts: Any, *, timeout_s: float) -> list[float]:
        return [0.5] * len(texts)


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLUGINS._found["reranker"], "marked", Marked)


def test_a_provider_that_is_not_installed_is_a_configuration_error(
    monkeypatch: pytest.MonkeyPatch, fresh_wiring: None
) -> None:
    use_provider(monkeypatch, "embedding", "lost", "no_such_package.make")
    with pytest.raises(ConfigurationError, match="embedding provider “lost” cannot be loaded"):
        wiring.embedder("lost:x")


@pytest.mark.parametrize("kind", ["embedding", "chat"])
def test_an_unknown_provider_lists_the_known_ones(kind: str) -> None:
    load = wiring.embedder if kind == "embedding" else wiring.chat_model
    with pytest.raises(UnknownNameError, match=f"Unknown {kind} provider “x”. Known: .*gemini"):
        load("x:y")


def test_options_come_from_settings_and_secrets_become_values(marked: None, settings: Any) -> None:
    given = {"PLUGIN_OPTIONS": {"reranker.marked": {"mark": "a", "key": "K"}}, "TIMEOUT_S": 9.0}
    settings.RAG = settings.RAG | given | {"SECRETS": {"K": "value"}}
    made = configured_plugin(kind="reranker", name="marked")
    assert made.options == Marked.Options("a", "value", 9.0)
    assert configured_plugin(kind="reranker", name="marked") is made
    settings.RAG = settings.RAG | {"PLUGIN_OPTIONS": {"reranker.marked": {"mark": "b"}}}
    assert configured_plugin(kind="reranker", name="marked").options.mark == "b"
    settings.RAG = settings.RAG | {"PLUGIN_OPTIONS": {"reranker.marked": {"mark": 1}}}
    with pytest.raises(InvalidInputError, match="“mark” of marked"):
        configured_plugin(kind="reranker", name="marked")


def test_a_reranker_is_a_choice_of_the_retrieval_settings(marked: None) -> None:
    assert rerank_methods() == ("none", "llm", "endpoint", "mixed", "marked")
    assert RetrievalSettings(rerank="marked").rerank == "marked"
    with pytest.raises(UnknownNameError, match="Known: endpoint, llm, marked, mixed, none"):
        RetrievalSettings(rerank="nobody")


@pytest.mark.parametrize("name", ["none", "mixed"])
def test_a_reranker_cannot_have_the_name_of_a_choice(name: str) -> None:
    plugin = type("Bad", (Marked,), {"name": name})
    with pytest.raises(ConfigurationError, match=name):
        PluginRegistry().add("reranker", plugin)


def test_a_provider_of_tests_is_a_plugin() -> None:
    registry = PluginRegistry()
    registry.add("embedding", fake_provider("words", int))
    assert registry.get("embedding", "words")(None).load("3") == 3
