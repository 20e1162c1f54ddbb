"""The tool memory_retrieve keeps to the contract and tells each person their own memories only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agents.chat.memory.facts import Fact, make_episode
from agents.chat.memory.storage import MemoryOrigin, save_episode, save_facts, set_memory_choice
from agents.tools.memory_retrieve import MemoryRetrieve
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.tools import call_tool
from rag.plugins.contract_tool import ToolContract
from rag.services.plugins import list_plugins
from rag.services.sources.ports import SourceContext
from tests.edges.admin_client import use_words_embedder
from tests.factories import UserFactory


@pytest.fixture(autouse=True)
def scope(
    db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> Iterator[Scope]:
    """Somebody with a fact and an exchange, in two projects."""
    use_words_embedder(monkeypatch, settings)
    mine = Scope(UserFactory().pk)
    TestMemoryRetrieve.mine = mine
    episode = make_episode("How old is the pump?", "Two years.")
    assert episode
    save_episode(MemoryOrigin(mine, "desk"), episode)
    save_facts(MemoryOrigin(mine, "lab"), [Fact("pump", "My pump is an HX-400.")])
    yield mine


class TestMemoryRetrieve(ToolContract):
    plugin = MemoryRetrieve
    options: Mapping[str, Any] = {"query": "How old is the pump?"}
    mine = Scope.anonymous()

    def scope(self) -> Scope:
        return self.mine

    def ports(self) -> Any:
        return SourceContext()

    def hidden_options(self) -> Mapping[str, Any]:
        return self.options

    def failing_options(self) -> Mapping[str, Any]:
        return {"query": "  "}


def call(scope: Scope, **arguments: Any) -> list[Any]:
    given = {"query": "How old is the pump?", **arguments}
    found = call_tool(
        MemoryRetrieve(), given, scope=scope, deadline=Deadline(20), ports=SourceContext()
    )
    memories: list[Any] = found["memories"]
    return memories


def test_it_is_there_for_models_by_name() -> None:
    assert "memory_retrieve" in {one.name for one in list_plugins(kind="tool").plugins}


def test_facts_come_first_and_can_be_chosen(scope: Scope) -> None:
    fact, episode = call(scope)
    assert (fact["kind"], fact["text"]) == ("semantic", "My pump is an HX-400.")
    assert (episode["text"], episode["answer"]) == ("How old is the pump?", "Two years.")
    assert episode["score"] > 0.8 and episode["project"] == "desk" and episode["at"]
    assert [one["kind"] for one in call(scope, kind="episodic")] == ["episodic"]
    assert [one["project"] for one in call(scope, project="lab")] == ["lab"]
    assert call(scope, project="no\0where") == []
    assert [one["kind"] for one in call(scope, query="seeds", kind="episodic")] == []


def test_nobody_else_is_told_anything(scope: Scope) -> None:
    for other in (
        Scope(UserFactory().pk),
        Scope(UserFactory().pk, is_operator=True),
        Scope.operator(),
        Scope(scope.user_id, only_store_ids=frozenset({1})),
    ):
        assert call(other) == []
    set_memory_choice(scope=scope, is_on=False)
    assert call(scope) == []
