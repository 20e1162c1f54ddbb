"""Memories: whose they are, what replaces them, how many are kept, of which model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents import models
from agents import tasks as agent_tasks
from agents.chat.memory.agent_memory import recall_memories
from agents.chat.memory.facts import Fact, make_episode
from agents.chat.memory.storage import (
    MemoryOrigin,
    reembed_memories,
    save_episode,
    save_facts,
    set_memory_choice,
)
from agents.core.recalled_memory import RecalledMemory
from rag.core.access import Scope
from tests.edges.admin_client import use_words_embedder
from tests.factories import UserFactory

WORDS = ("pump", "filter", "seeds", "Bonn", "泵")


@pytest.fixture(autouse=True)
def words(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The queue's tasks, which leave the test's own connection alone."""
    monkeypatch.setattr(agent_tasks.connections, "close_all", lambda: None)
    return agent_tasks


def asked(scope: Scope, query: str, **more: Any) -> list[RecalledMemory]:
    return recall_memories(query=query, scope=scope, **more)


owner = st.integers(0, 2)
limits = st.sampled_from([None, frozenset({1}), frozenset({1, 2})])
memory = st.tuples(
    owner, limits, st.sampled_from(["a", "b"]), st.booleans(), st.sampled_from(WORDS)
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(memory, max_size=8),
    owner,
    limits,
    st.sampled_from(["a", "b", None]),
    st.booleans(),
    st.sampled_from(WORDS),
)
def test_memories_never_cross_people_limits_or_projects(
    kept: list[Any], who: int, limit: Any, project: Any, is_operator: bool, query: str
) -> None:
    users = [UserFactory() for _ in range(3)]
    for number, (of, only, place, is_fact, word) in enumerate(kept):
        origin = MemoryOrigin(Scope(users[of].pk, only_store_ids=only), place)
        if is_fact:
            save_facts(origin, [Fact(f"{number}", f"{word} of number{number}")])
        else:
            episode = make_episode(f"{word} {number}", f"{of} {word}")
            assert episode
            save_episode(origin, episode)
    scope = Scope(users[who].pk, is_operator=is_operator, only_store_ids=limit)
    found = asked(scope, query, project=project, top_k=20)
    mine = {str(row.key) for row in models.Memory.objects.filter(user=users[who])}
    assert {one.key for one in found} <= mine
    for row in models.Memory.objects.filter(key__in=[one.key for one in found]):
        assert project is None or row.project == project
        assert limit is None or row.only_store_ids == sorted(limit)
    facts = {
        n
        for n, (of, only, place, is_fact, _) in enumerate(kept)
        if is_fact and of == who and limit in (None, only) and project in (None, place)
    }
    told = {one.key for one in found if one.kind == "semantic"}
    assert len(told) == len(facts), "facts are told whatever the question"
    for stranger in (Scope.anonymous(), Scope.operator()):
        assert asked(stranger, query, top_k=20) == []
    models.Memory.objects.all().delete()


def test_the_newest_word_replaces_only_ones_own() -> None:
    me, other = Scope(UserFactory().pk), Scope(UserFactory().pk)
    (theirs,) = save_facts(MemoryOrigin(other, "a"), [Fact("pump", "old")])
    (elsewhere,) = save_facts(MemoryOrigin(me, "b"), [Fact("pump", "old")])
    (mine,) = save_facts(MemoryOrigin(me, "a"), [Fact("pump", "old")])
    save_facts(MemoryOrigin(me, "a"), [Fact("pump", "new", (theirs.pk, elsewhere.pk))], [theirs.pk])
    texts = dict(models.Memory.objects.values_list("pk", "text"))
    assert texts == {theirs.pk: "old", elsewhere.pk: "old", mine.pk: "new"}


def test_the_same_words_under_another_subject_are_one_fact() -> None:
    origin = MemoryOrigin(Scope(UserFactory().pk), "a")
    save_facts(origin, [Fact("pump", "The pump is an HX-400.")])
    save_facts(origin, [Fact("equipment", "The pump is an HX-400!"), Fact("town", "Bonn")])
    assert sorted(models.Memory.objects.values_list("subject", flat=True)) == ["equipment", "town"]


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.chat.memory.storage.MAX_KEPT", {"semantic": 3, "episodic": 3})
    origin = MemoryOrigin(Scope(UserFactory().pk), "a")
    for number in range(5):
        save_facts(origin, [Fact(str(number), f"word{number}")])
    assert list(models.Memory.objects.values_list("text", flat=True)) == ["word4", "word3", "word2"]


def test_vectors_of_another_model_are_not_mixed_and_made_anew(settings: Any, tasks: Any) -> None:
    scope = Scope(UserFactory().pk)
    episode = make_episode("How old is the pump?", "Two years.")
    assert episode
    save_episode(MemoryOrigin(scope, "a"), episode)
    save_facts(MemoryOrigin(scope, "a"), [Fact("pump", "It is red.")])
    assert len(asked(scope, "How old is the pump?")) == 2
    settings.RAG = {**settings.RAG, "EMBEDDING_MODEL": "words:32"}
    found = asked(scope, "How old is the pump?")
    assert [one.kind for one in found] == ["semantic"], (
        "what has no vector of this model is not like"
    )
    assert reembed_memories() == 2 and reembed_memories() == 0
    assert [one.kind for one in asked(scope, "How old is the pump?")] == ["semantic", "episodic"]
    tasks.embed_memories_task(0)


def test_what_the_owner_wrote_over_an_exchange_stays() -> None:
    origin = MemoryOrigin(Scope(UserFactory().pk))
    first, second = make_episode("What colour?", "Red."), make_episode("what colour", "Blue.")
    assert first and second
    row = save_episode(origin, first)
    assert row
    models.Memory.objects.filter(pk=row.pk).update(is_by_hand=True, answer="Green.")
    assert save_episode(origin, second) is None
    models.Memory.objects.update(is_by_hand=False)
    assert save_episode(origin, second) == row


def test_a_switch_off_hides_and_keeps() -> None:
    scope = Scope(UserFactory().pk)
    save_facts(MemoryOrigin(scope), [Fact("a", "red")])
    set_memory_choice(scope=scope, is_on=False)
    assert asked(scope, "red") == []
    set_memory_choice(scope=scope, is_on=True)
    assert len(asked(scope, "red")) == 1
