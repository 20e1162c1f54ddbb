"""What is remembered, over HTTP: seen, changed and deleted by whom it is about."""

from __future__ import annotations

from typing import Any

import pytest

from agents import models
from rag.services.access.api_keys import create_key
from tests.edges.api_client import KeyClient, client_for, error_of, ok
from tests.factories import UserFactory
from tests.integration.agent_world import CITED, AgentWorld, world

__all__ = ["world"]
PUMP = "How often is the pump serviced?"


@pytest.fixture
def client(world: AgentWorld) -> KeyClient:
    """Somebody with a fact and an exchange."""
    world.set(enable_memory=True)
    world.use(lambda request: "no JSON" if "<said>" in request.messages[-1].content else CITED)
    world.ask(f"My pump is an HX-400. {PUMP}")
    return client_for(world.user)


def listed(client: KeyClient, query: str = "") -> list[Any]:
    found: list[Any] = ok(client.get(f"/api/memories?ordering=id&{query}"))["results"]
    return found


def test_memories_are_seen_with_their_source_and_filtered(
    world: AgentWorld, client: KeyClient
) -> None:
    episode, fact = listed(client)
    row = models.Message.objects.get(role="assistant")
    assert (fact["kind"], fact["text"]) == ("semantic", "My pump is an HX-400")
    assert (fact["message"], fact["session"]) == (str(row.key), str(row.session.key))
    assert (episode["answer"], episode["is_answer_gone"]) == ("Every 30 days.", False)
    assert "embedding" not in fact and "space" not in fact
    for query, n in (
        ("kind=semantic", 1),
        ("project=desk", 2),
        ("project=x", 0),
        ("q=30", 1),
        (f"session={row.session.key}", 2),
    ):
        assert len(listed(client, query)) == n
    assert ok(client.get(f"/api/memories/{fact['id']}"))["id"] == fact["id"]
    error_of(client.get("/api/memories?kind=dreams"), 400)


def test_an_answer_that_may_not_be_read_any_more_is_not_shown(
    world: AgentWorld, client: KeyClient
) -> None:
    world.store.owner = None
    world.store.save()
    episode, _ = listed(client)
    assert (episode["answer"], episode["is_answer_gone"]) == ("", True)
    assert ok(client.get(f"/api/memories/{episode['id']}"))["answer"] == ""


def test_the_owner_changes_words_and_they_are_found_by_them(
    world: AgentWorld, client: KeyClient
) -> None:
    episode, fact = listed(client)
    address = f"/api/memories/{fact['id']}"
    before = models.Memory.objects.get(key=fact["id"]).embedding
    changed = ok(client.send("patch", address, {"text": " Their filter is blue. "}))
    assert (changed["text"], changed["is_by_hand"]) == ("Their filter is blue.", True)
    assert models.Memory.objects.get(key=fact["id"]).embedding != before
    edited = ok(client.send("patch", f"/api/memories/{episode['id']}", {"answer": "Monthly."}))
    assert (edited["answer"], edited["is_by_hand"]) == ("Monthly.", True)
    for wrong in (
        {"text": " . "},
        {"text": ""},
        {"kind": "episodic"},
        {"project": "x"},
        {"no": 1},
        {"answer": "x"},
        {"text": "x" * 2001},
    ):
        error_of(client.send("patch", address, wrong), 400)
    made = ok(client.send("post", "/api/memories", {"text": "I like tea.", "project": "desk"}), 201)
    assert (made["text"], made["kind"], made["message"]) == ("I like tea.", "semantic", None)
    error_of(client.send("patch", address, {"text": "i LIKE tea"}), 409)
    error_of(client.send("post", "/api/memories", {"text": ""}), 400)


def test_the_owner_deletes_one_some_or_all(client: KeyClient) -> None:
    episode, fact = listed(client)
    ok(client.delete(f"/api/memories/{fact['id']}"), 204)
    error_of(client.get(f"/api/memories/{fact['id']}"), 404)
    ok(client.send("post", "/api/memories", {"text": "I like tea."}), 201)
    error_of(client.delete("/api/memories/all?kind=x"), 400)
    ok(client.delete("/api/memories/all?kind=semantic"), 204)
    assert [one["id"] for one in listed(client)] == [episode["id"]]
    ok(client.delete("/api/memories/all"), 204)
    assert models.Memory.objects.count() == 0


def test_the_owner_switches_memory_off(world: AgentWorld, client: KeyClient) -> None:
    assert ok(client.get("/api/memories/choice")) == {"is_on": True}
    assert ok(client.send("patch", "/api/memories/choice", {"is_on": False})) == {"is_on": False}
    world.ask("My filter is blue.")
    assert len(listed(client)) == 2, "nothing new, and what was there can be deleted"
    error_of(client.send("patch", "/api/memories/choice", {"is_on": "perhaps"}), 400)
    reader = client_for(world.user, rights=["read"])
    assert ok(reader.get("/api/memories/choice")) == {"is_on": False}
    for method, address in (("patch", "choice"), ("delete", "all"), ("post", "")):
        error_of(reader.send(method, f"/api/memories/{address}".rstrip("/"), {"is_on": True}), 403)


def test_nobody_else_sees_or_touches_them(world: AgentWorld, client: KeyClient) -> None:
    _, fact = listed(client)
    _, limited = create_key(
        user=world.user, name="k", rights=["read", "write"], stores=[world.store]
    )
    for other in (
        client_for(UserFactory()),
        client_for(UserFactory(is_superuser=True)),
        KeyClient(limited),
    ):
        assert listed(other) == []
        address = f"/api/memories/{fact['id']}"
        error_of(other.get(address), 404)
        error_of(other.send("patch", address, {"text": "x"}), 404)
        error_of(other.delete(address), 404)
        ok(other.delete("/api/memories/all"), 204)
    assert len(listed(client)) == 2
    error_of(KeyClient().get("/api/memories"), 401)


def test_they_go_with_their_session_unless_the_owner_keeps_them(
    world: AgentWorld, client: KeyClient
) -> None:
    session = models.Session.objects.get()
    error_of(client.delete(f"/api/sessions/{session.key}?memories=maybe"), 400)
    ok(client.delete(f"/api/sessions/{session.key}?memories=keep"), 204)
    assert [one["session"] for one in listed(client)] == [None, None]
    models.Memory.objects.all().delete()
    world.ask(f"My filter is blue. {PUMP}")
    ok(client.delete(f"/api/sessions/{models.Session.objects.get().key}"), 204)
    assert listed(client) == []
    world.ask(f"My filter is blue. {PUMP}")
    world.user.delete()
    assert models.Memory.objects.count() == 0


def test_a_fact_stays_about_its_thing_when_its_words_change(
    world: AgentWorld, client: KeyClient
) -> None:
    _, fact = listed(client)
    for text, subject in (
        ("Our pump is an HX-500", "pump"),
        ("The HX-500 pump is old.", "pump"),
        ("The filter is blue.", "the filter is blue"),
    ):
        ok(client.send("patch", f"/api/memories/{fact['id']}", {"text": text}))
        assert models.Memory.objects.get(key=fact["id"]).subject == subject
    ok(client.send("post", "/api/memories", {"text": "My pump is red.", "project": "desk"}), 201)
    ok(client.send("post", "/api/memories", {"text": "My pump is green.", "project": "desk"}), 201)
    texts = [one["text"] for one in listed(client, "kind=semantic")]
    assert texts == ["The filter is blue.", "My pump is green."]


def test_a_bad_answer_is_not_remembered(world: AgentWorld, client: KeyClient) -> None:
    row = models.Message.objects.get(role="assistant")
    ok(client.send("patch", f"/api/messages/{row.key}", {"feedback": -1}))
    assert [one["kind"] for one in listed(client)] == ["semantic"]
