"""Agents, sessions and messages over HTTP: one's own, and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest

from agents import models
from rag import models as rag_models
from rag.core.access import Scope
from rag.services.chunks.edit import edit_chunk
from tests.edges.api_client import KeyClient, client_for, error_of, ok
from tests.factories import GroupFactory, UserFactory
from tests.integration.agent_world import CITED, QUOTE, AgentWorld, world

__all__ = ["world"]
PERMISSIONS = ("add_agent", "change_agent", "delete_agent")


@pytest.fixture
def talk(world: AgentWorld) -> Any:
    """Two turns of a conversation."""
    world.use(CITED)
    first = world.ask("How often is the pump serviced?")
    world.ask(
        "How often is the filter of the pump replaced?", session=first.events[0].data["session"]
    )
    return first


def test_a_conversation_is_listed_read_and_renamed(world: AgentWorld, talk: Any) -> None:
    client = client_for(world.user)
    (listed,) = ok(client.get("/api/sessions?agent=desk"))["results"]
    assert listed["title"] == "How often is the pump serviced?" and listed["agent"] == "desk"
    address = f"/api/sessions/{listed['id']}"
    assert ok(client.send("patch", address, {"title": " Pumps "}))["title"] == "Pumps"
    error_of(client.send("patch", address, {"title": ""}), 400)
    error_of(client.send("patch", address, {"agent": "x"}), 400)
    turns = ok(client.get(f"{address}/messages"))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user", "assistant"]
    assert turns[1]["citations"][0]["verdict"] == "verified"
    assert turns[1]["parent"] == turns[0]["id"] and listed["head"] == turns[3]["id"]
    assert ok(client.get("/api/sessions?title=pumps"))["results"]
    ok(client.delete(address), 204)
    assert models.Message.objects.count() == 0


def test_a_branch_and_a_second_answer_keep_the_first(world: AgentWorld, talk: Any) -> None:
    client = client_for(world.user)
    session = talk.events[0].data["session"]
    turns = ok(client.get(f"/api/sessions/{session}/messages"))
    again = world.ask(regenerate=turns[1]["id"])
    assert again.row.parent.key == models.Message.objects.get(key=turns[0]["id"]).key
    shown = ok(client.get(f"/api/sessions/{session}/messages"))
    assert [turn["role"] for turn in shown] == ["user", "assistant"]
    assert shown[1]["alternatives"] == [turns[1]["id"], str(again.row.key)]
    back = ok(client.send("post", f"/api/messages/{turns[3]['id']}/branch", {}))
    assert back["head"] == turns[3]["id"]
    assert len(ok(client.get(f"/api/sessions/{session}/messages"))) == 4
    told = world.ask("And what else of the pump?", parent=turns[1]["id"])
    shown = ok(client.get(f"/api/sessions/{session}/messages"))
    assert shown[-1]["id"] == str(told.row.key) and len(shown) == 4
    assert shown[2]["alternatives"][0] == turns[2]["id"]


def test_feedback_is_given_to_answers(world: AgentWorld, talk: Any) -> None:
    client = client_for(world.user, rights=["read"])
    address = f"/api/messages/{talk.row.key}"
    kept = ok(client.send("patch", address, {"feedback": 1, "feedback_comment": " good "}))
    assert (kept["feedback"], kept["feedback_comment"]) == (1, "good")
    assert ok(client.get("/api/messages?feedback=1"))["results"][0]["id"] == str(talk.row.key)
    assert ok(client.send("patch", address, {"feedback": None}))["feedback"] is None
    error_of(client.send("patch", address, {"feedback": 5}), 400)
    error_of(client.send("patch", address, {"content": "x"}), 400)
    question = f"/api/messages/{talk.row.parent.key}"
    error_of(client.send("patch", question, {"feedback": 1}), 400)
    error_of(client.send("patch", f"/api/sessions/{talk.row.session.key}", {"title": "x"}), 403)


def test_an_old_answer_opens_the_text_it_quoted(world: AgentWorld, talk: Any) -> None:
    client = client_for(world.user)
    citation = talk.row.citations[0]
    chunk = rag_models.Chunk.objects.get(pk=citation["chunk_id"])
    edit_chunk(
        scope=world.scope,
        chunk_id=chunk.pk,
        text="Something else now.",
        by=world.user,
        expected_revision=chunk.revision,
    )
    opened = ok(client.get(f"/api/messages/{talk.row.key}/citations/1"))
    assert opened["text"][opened["start"] : opened["end"]] == QUOTE
    error_of(client.get(f"/api/messages/{talk.row.key}/citations/9"), 404)
    world.store.owner = None
    world.store.save()
    error_of(client.get(f"/api/messages/{talk.row.key}/citations/1"), 404)


def test_words_of_passages_go_with_the_right_to_read_them(world: AgentWorld, talk: Any) -> None:
    client = client_for(world.user)
    session, answer = talk.row.session.key, f"/api/messages/{talk.row.key}"
    assert QUOTE in str(ok(client.get(answer))["sources"])
    world.store.owner = None
    world.store.save()
    for told in (
        ok(client.get(answer)),
        ok(client.get("/api/messages?ordering=id"))["results"][1],
        ok(client.get(f"/api/sessions/{session}/messages"))[1],
        ok(client.send("patch", answer, {"feedback": 1})),
    ):
        assert told["id"] == str(talk.row.key) and QUOTE not in str(told)
        assert told["citations"][0]["is_gone"] and told["sources"][0]["is_gone"]
        assert told["citations"][0]["verdict"] == "verified" and told["content"] == "[…][1]"


def test_nobody_reads_the_conversations_of_others(world: AgentWorld, talk: Any) -> None:
    session, message = talk.row.session.key, talk.row.key
    for user in (UserFactory(), UserFactory(is_superuser=True)):
        client = client_for(user)
        assert ok(client.get("/api/sessions"))["results"] == []
        assert ok(client.get("/api/messages"))["results"] == []
        for address in (
            f"sessions/{session}",
            f"sessions/{session}/messages",
            f"messages/{message}",
        ):
            error_of(client.get(f"/api/{address}"), 404)
        error_of(client.send("patch", f"/api/messages/{message}", {"feedback": 1}), 404)
        error_of(client.delete(f"/api/sessions/{session}"), 404)
        error_of(client.send("post", f"/api/messages/{message}/branch", {}), 404)
    limited = client_for(world.user, stores=[world.store])
    assert ok(limited.get("/api/sessions"))["results"] == [], (
        "a limited key sees what it was used for"
    )
    for address in ("sessions", "messages", "agents"):
        error_of(KeyClient().get(f"/api/{address}"), 401)
    assert models.Session.objects.readable(Scope.operator()).count() == 0
    assert models.Session.objects.readable(Scope.anonymous()).count() == 0


def test_agents_are_made_changed_and_deleted_by_whom_they_belong_to(world: AgentWorld) -> None:
    user = UserFactory(permissions=PERMISSIONS)
    world.store.reader_groups.add(group := GroupFactory())
    user.groups.add(group)
    client = client_for(user)
    body = {
        "name": "helpful",
        "display_name": "Helpful",
        "prompt": "Be kind.",
        "stores": ["manuals"],
        "config": {"default_top_k": 3, "enable_rerank": True},
        "temperature": 0.2,
        "reader_groups": [group.name],
    }
    made = ok(client.send("post", "/api/agents", body), 201)
    assert made["config"]["default_top_k"] == 3 and made["config"]["rerank_top_k"] == 5
    assert made["stores"] == ["manuals"] and made["is_builtin"] is False
    error_of(client.send("post", "/api/agents", body), 409)
    changed = ok(client.send("patch", "/api/agents/helpful", {"config": {"search_mode": "auto"}}))
    assert changed["config"]["default_top_k"] == 5
    for wrong in (
        {"config": {"default_top_k": 999}},
        {"config": {"nonsense": 1}},
        {"temperature": 9},
        {"agent_type": "magic"},
        {"nonsense": 1},
        {"is_builtin": True},
        {"model": "nobody:model"},
        {"max_iterations": 0},
    ):
        error_of(client.send("patch", "/api/agents/helpful", wrong), 400)
    error_of(client.send("patch", "/api/agents/helpful", {"stores": ["nowhere"]}), 404)
    reader = UserFactory(permissions=PERMISSIONS)
    reader.groups.add(group)
    seen = ok(client_for(reader).get("/api/agents/helpful"))
    assert "prompt" not in seen and seen["display_name"] == "Helpful"
    error_of(client_for(reader).send("patch", "/api/agents/helpful", {"prompt": "x"}), 403)
    error_of(client_for(reader).delete("/api/agents/helpful"), 403)
    error_of(client_for(UserFactory()).get("/api/agents/helpful"), 404)
    error_of(client_for(UserFactory()).send("post", "/api/agents", {"name": "x"}), 403)
    names = [one["name"] for one in ok(client.get("/api/agents?agent_type=rag"))["results"]]
    assert "helpful" in names and "desk" not in names
    ok(client.delete("/api/agents/helpful"), 204)


def test_the_built_in_agent_can_be_switched_off_and_not_deleted(world: AgentWorld) -> None:
    models.Agent.objects.update_or_create(
        name="rag", defaults={"is_builtin": True, "is_public": True}
    )
    client = client_for(UserFactory(is_superuser=True))
    error_of(client.delete("/api/agents/rag"), 409)
    ok(client.send("patch", "/api/agents/rag", {"is_enabled": False}))
    error_of(client.send("post", "/api/agents/rag/chat", {"message": "hi"}), 409)


@pytest.mark.parametrize("name", ["de%00sk", "desk%00", "%00"])
def test_a_name_with_a_nul_is_nobodys(world: AgentWorld, name: str) -> None:
    client = client_for(world.user)
    for method, address, body in (
        ("post", f"/api/agents/{name}/chat", {"message": "How often?", "stream": False}),
        ("get", f"/api/agents/{name}/graph", None),
        ("get", f"/api/agents/{name}", None),
    ):
        response = client.send(method, address, body) if body else client.get(address)
        assert error_of(response, 404)["code"] == "not_found", address
    assert not models.Session.objects.exists()


def test_conversations_are_found_by_title_and_question_alone(world: AgentWorld, talk: Any) -> None:
    client = client_for(world.user)
    assert len(ok(client.get("/api/sessions?q=PUMP"))["results"]) == 1
    assert len(ok(client.get("/api/sessions?q=filter of"))["results"]) == 1
    # Words of answers are not looked through: their sources may be closed to the reader by now.
    assert QUOTE.split()[-1] not in "How often is the pump serviced? filter of the pump replaced"
    assert ok(client.get(f"/api/sessions?q={QUOTE}"))["results"] == []
    assert ok(client_for(UserFactory()).get("/api/sessions?q=pump"))["results"] == []


def test_questions_are_suggested_from_what_may_be_read(world: AgentWorld) -> None:
    client = client_for(world.user)
    address = "/api/agents/desk/suggestions"
    assert all("“" in one for one in ok(client.get(address))["questions"])
    row = models.Agent.objects.get(name="desk")
    row.config = {**row.config, "suggested_questions": "How often?\n\nBy whom?\n"}
    row.save()
    assert ok(client.get(f"{address}?limit=1"))["questions"] == ["How often?"]
    assert ok(client.get(address))["questions"] == ["How often?", "By whom?"]
    error_of(client.get(f"{address}?store=nowhere"), 404)
    error_of(client.get(f"{address}?limit=99"), 400)
    error_of(client.get("/api/agents/none/suggestions"), 404)
