"""React agents and supervisors over HTTP: made with checked names, drawn, asked, followed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.db import connection

from agents import models
from agents.chat.agents.agent import RAGAgent
from rag.core.errors import UnknownNameError
from tests.edges.api_client import client_for, error_of, ok
from tests.factories import GroupFactory, StoreFactory, UserFactory
from tests.integration.agent_world import CITED, AgentWorld, sse_events, world
from tests.integration.calling_model import Calling, call, calls

__all__ = ["world"]
PERMISSIONS = ("add_agent", "change_agent", "delete_agent")
SOURCE = {"type": "vector_store", "description": "Manuals.", "collection": "manuals"}


@pytest.fixture
def client(world: AgentWorld) -> Any:
    user = UserFactory(permissions=PERMISSIONS)
    world.store.is_public = True
    world.store.save()
    return client_for(user)


def body(**config: Any) -> dict[str, Any]:
    return {"name": "loop", "agent_type": "react", "config": config}


def test_a_react_agent_is_made_with_turns_to_think(client: Any) -> None:
    made = ok(
        client.send("post", "/api/agents", body(tools=["grade"], sources={"docs": SOURCE})), 201
    )
    assert (made["max_iterations"], made["config"]["tools"]) == (8, ["grade"])
    assert made["config"]["sources"] == {"docs": SOURCE}
    made = ok(
        client.send("post", "/api/agents", {**body(), "name": "short", "max_iterations": 2}), 201
    )
    assert made["max_iterations"] == 2 and made["config"]["tools"] == ["vector_retrieve"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tools": ["nothing"]}, "vector_retrieve"),
    ({"sources": {"docs": {**SOURCE, "type": "nothing"}}}, "vector_store"),
    ({"sources": {"docs": {**SOURCE, "nothing": 1}}}, "collection"),
    ({"sources": {"Docs!": SOURCE}}, "cannot be called “Docs!”"),
    ({"sources": {"vector_retrieve": SOURCE}}, "no tool of the agent"),
    ({"sources": {"docs": {**SOURCE, "description": " "}}}, "no description"),
    ({"sources": {"docs": "manuals"}}, "is no object"),
    ({"sources": {"docs": {**SOURCE, "timeout_s": "1"}}}, "no number"),
    ({"sources": {"docs": {**SOURCE, "retries": 0.5}}}, "no whole number"),
    ({"sources": {"docs": {**SOURCE, "timeout_s": 0}}}, "Allowed"),
    ({"sources": {f"s{n}": SOURCE for n in range(21)}}, "There are 21 data sources"),
    ({"tool_calling": "magic"}, "native"),
    ({"max_tool_calls": 0}, "Allowed: 1 to 100"),
    ({"run_tokens": 1}, "Allowed: 500"),
]


def test_what_could_never_work_is_refused_with_the_names_there_are(client: Any) -> None:
    for config, words in WRONG:
        error = error_of(client.send("post", "/api/agents", body(**config)), 400)
        assert words in str(error), (config, error)
    hidden = {"sources": {"docs": {**SOURCE, "collection": StoreFactory(slug="hidden").slug}}}
    error_of(client.send("post", "/api/agents", body(**hidden)), 404)
    assert not models.Agent.objects.filter(name="loop").exists()


def test_sources_are_shown_by_name_to_who_may_not_change_the_agent(client: Any) -> None:
    ok(
        client.send("post", "/api/agents", {**body(sources={"docs": SOURCE}), "is_public": True}),
        201,
    )
    seen = ok(client_for(UserFactory()).get("/api/agents/loop"))
    assert seen["config"]["sources"] == ["docs"]


def test_a_supervisor_tells_nobody_of_agents_that_they_may_not_see(client: Any) -> None:
    for name in ("open", "hidden"):
        ok(
            client.send(
                "post", "/api/agents", {**body(), "name": name, "is_public": name == "open"}
            ),
            201,
        )
    values = {
        "agent_type": "supervisor",
        "config": {"agents": ["hidden", "open"]},
        "is_public": True,
    }
    made = ok(client.send("post", "/api/agents", {"name": "lead", **values}), 201)
    assert made["config"]["agents"] == ["hidden", "open"]
    assert ok(client_for(UserFactory()).get("/api/agents/lead"))["config"]["agents"] == ["open"]


def test_a_supervisor_names_agents_that_its_maker_may_ask(client: Any, world: AgentWorld) -> None:
    def lead(name: str, *names: str) -> Any:
        values = {"name": name, "agent_type": "supervisor", "config": {"agents": list(names)}}
        return client.send("post", "/api/agents", values)

    assert "needs agents" in str(error_of(lead("lead"), 400))
    hidden = str(error_of(lead("lead", "desk"), 400))
    assert "Unknown agent “desk”" in hidden
    assert "would ask itself" in str(error_of(lead("lead", "lead"), 400))
    ok(client.send("post", "/api/agents", body()), 201)
    assert ok(lead("lead", "loop"), 201)["max_iterations"] == 3
    ok(lead("chief", "lead"), 201)
    circle = {"config": {"agents": ["loop", "chief"]}}
    assert "lead → chief → lead" in str(
        error_of(client.send("patch", "/api/agents/lead", circle), 400)
    )
    ok(client.send("patch", "/api/agents/lead", {"display_name": "Lead"}))


def test_each_type_is_drawn_and_tells_its_config(world: AgentWorld) -> None:
    drawn = {}
    for kind in ("rag", "react", "supervisor"):
        world.agent.agent_type = kind
        agent = RAGAgent(world.agent, world.scope, ())
        drawn[kind] = [one["name"] for one in agent.export_graph("json")["nodes"]]  # type: ignore[index]
        assert agent.get_config()["agent_type"] == kind
        assert str(agent.export_graph()).startswith("flowchart TD")
        with pytest.raises(UnknownNameError):
            agent.export_graph("png")
    assert {"search", "rerank"} <= {*drawn["rag"]} and "think" in drawn["react"]
    assert drawn["supervisor"][-5:] == ["plan", "ask", "merge", "generate", "converse"]


def test_the_graph_is_that_of_the_agent_s_type(client: Any) -> None:
    ok(client.send("post", "/api/agents", body()), 201)
    graph = ok(client.get("/api/agents/loop/graph"))
    assert {"think", "act", "answer"} <= {one["name"] for one in graph["nodes"]}
    assert "act -.-> think" in ok(client.get("/api/agents/loop/graph?form=mermaid"))["mermaid"]


async def whole(parts: Any) -> str:
    return "".join([part.decode() async for part in parts])


def test_a_loop_is_streamed_and_can_be_followed_again(client: Any, world: AgentWorld) -> None:
    config = {"enable_fast_path": False, "vector_threshold": 0.0, "default_top_k": 1}
    ok(client.send("post", "/api/agents", body(**config)), 201)
    world.use(Calling(calls(call("vector_retrieve", query="filter", top_k=1)), CITED))
    asked = {"message": "How often is the pump serviced?", "stream": False}
    answer = ok(client.send("post", "/api/agents/loop/chat", asked))
    assert (answer["answer"], answer["outcome"]) == ("Every 30 days.[1]", "answered")
    response = client.get(f"/api/agents/loop/chat/{answer['message']}")
    events = sse_events(async_to_sync(whole)(response.streaming_content))
    kinds = [kind for _, kind, _ in events]
    assert kinds.index("tool_call") < kinds.index("tool_result") < kinds.index("delta")
    assert kinds[-1] == "done"


def test_every_installation_has_a_react_agent(world: AgentWorld) -> None:
    migration = import_module("agents.migrations.0004_agent_kinds")
    models.Agent.objects.filter(name="react").delete()

    class Editor:
        pass

    editor: Any = Editor()
    editor.connection = connection
    for _ in range(2):
        migration.make_builtin(apps, editor)
    agent = models.Agent.objects.get(name="react")
    assert agent.is_builtin and agent.is_public and agent.max_iterations == 8
    assert agent.settings.tools == ["vector_retrieve", "grade"]


def test_groups_of_others_are_not_there_to_be_chosen(world: AgentWorld) -> None:
    mine, other = GroupFactory(name="mine"), GroupFactory(name="board")
    client = client_for(UserFactory(permissions=PERMISSIONS, groups=[mine]))
    given = {"name": "shared", "editor_groups": ["board"]}
    refused = error_of(client.send("post", "/api/agents", given), 400)
    unknown = error_of(client.send("post", "/api/agents", {**given, "editor_groups": ["nil"]}), 400)
    # Whether there is such a group is not told either.
    assert refused["fields"] == {
        "editor_groups": [
            text.replace("nil", "board") for text in unknown["fields"]["editor_groups"]
        ]
    }
    made = ok(client.send("post", "/api/agents", {**given, "editor_groups": ["mine"]}), 201)
    assert made["editor_groups"] == ["mine"]
    row = models.Agent.objects.get(name="shared")
    row.reader_groups.add(other)
    kept = {"reader_groups": ["board", "mine"]}
    changed = ok(client.send("patch", "/api/agents/shared", kept))
    assert set(changed["reader_groups"]) == {"board", "mine"}, "what is set already may stay"
    knowing = client_for(UserFactory(permissions=(*PERMISSIONS, "view_group")))
    ok(knowing.send("post", "/api/agents", {"name": "b", "editor_groups": ["board"]}), 201)


@pytest.mark.parametrize("place", ["agents", "sessions", "messages", "memories", "flows"])
def test_a_list_refuses_what_it_cannot_be_asked(client: Any, place: str) -> None:
    ok(client.get(f"/api/{place}?limit=5"))
    fields = error_of(client.get(f"/api/{place}?limt=5"), 400)["fields"]
    assert fields == {"limt": ["There is no such field."]}
