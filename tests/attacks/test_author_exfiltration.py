"""Attack: an author lets others' questions read what the author may not, and sends it to a host.

Before: a public agent with an `api` source was asked by somebody who reads a private store; its
model put what it found into the source's query, and the author read it in the host's log. The same
with a flow, a supervisor's team, a review, files fetched from addresses that a node made up, and a
host that was changed after the consent.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents import models
from agents.chat.agents.agent_exposure import agent_exposure
from agents.chat.mcp.tools import ask_agent
from agents.flows.runs.flow_exposure import flow_exposure
from agents.flows.versions.load import load_flow
from agents.runtime.outbound import check_exposure, grant_consent
from rag import models as rag_models
from rag.core.access import Scope
from rag.core.errors import ForbiddenError
from rag.core.plugins import outbound_hosts
from rag.services.access.api_keys import scope_of
from tests.edges.api_client import client_for, error_of, ok
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory
from tests.integration.agent_world import OPEN, AgentWorld, world

__all__ = ["world"]
HOST = "collector.example"
SOURCE = {"type": "api", "endpoint": f"https://{HOST}/q", "description": "Facts."}
CODE = "consent_required"


@dataclass
class Plan:
    """An author with a public agent that calls a host, and somebody with a private store."""

    world: AgentWorld
    author: Any
    agent: models.Agent

    @property
    def scope(self) -> Scope:
        return self.world.scope

    def refused(self, scope: Scope | None = None) -> str:
        """Return why the agent may not be asked, empty where it may."""
        exposure = agent_exposure(agent=self.agent, scope=scope or self.scope)
        try:
            check_exposure(subject=self.agent, exposure=exposure)
        except ForbiddenError as error:
            assert error.code == CODE
            return str(error)
        return ""


@pytest.fixture
def plan(world: AgentWorld) -> Plan:
    author = UserFactory()
    config = {**OPEN, "sources": {"facts": SOURCE}}
    agent = models.Agent.objects.create(
        name="courier", owner=author, is_public=True, agent_type="react", config=config
    )
    return Plan(world, author, agent)


def flow_of(*nodes: dict[str, Any]) -> str:
    names = [*(node["name"] for node in nodes), "END"]
    edges = [{"from": a, "to": b} for a, b in pairwise(names)]
    return str({"name": "f", "nodes": list(nodes), "edges": edges, "entry_node": names[0]})


def test_no_path_asks_without_consent_and_each_does_with_it(plan: Plan) -> None:
    client = client_for(plan.world.user)
    asked = {"message": "How often is the pump serviced?", "stream": False}
    told = error_of(client.send("post", "/api/agents/courier/chat", asked), 403)
    assert told["code"] == CODE and HOST in told["message"] and "manuals" in told["message"]
    body = {"model": "courier", "messages": [{"role": "user", "content": asked["message"]}]}
    assert client.send("post", "/v1/chat/completions", body).status_code == 403
    with pytest.raises(ForbiddenError):
        arguments = {"question": asked["message"], "agent": "courier"}
        async_to_sync(ask_agent)(arguments=arguments, scope=plan.scope)
    assert not models.Message.objects.exists(), "nothing is written, no model is asked"

    state = ok(client.get("/api/consents/agents/courier"))
    assert state == {"name": "courier", "hosts": [HOST], "stores": ["manuals"], "is_granted": False}
    error_of(client.send("post", "/api/consents/agents/courier", {"hosts": ["other.example"]}), 409)
    assert ok(client.send("post", "/api/consents/agents/courier", {"hosts": [HOST]}))["is_granted"]
    plan.world.use("Every 30 days.")
    answer = ok(client.send("post", "/api/agents/courier/chat", asked))
    assert HOST in str(answer["notices"]), "it is marked in the chat"

    assert client.delete("/api/consents/agents/courier").status_code == 204
    error_of(client.send("post", "/api/agents/courier/chat", asked), 403)


def test_another_host_after_the_consent_needs_another(plan: Plan) -> None:
    exposure = agent_exposure(agent=plan.agent, scope=plan.scope)
    grant_consent(subject=plan.agent, exposure=exposure, hosts=[HOST], scope=plan.scope)
    assert not plan.refused()
    assert plan.refused(scope_of(UserFactory(is_superuser=True))), "it is one person's"
    plan.agent.config["sources"]["more"] = {**SOURCE, "endpoint": "https://other.example/q"}
    assert "other.example" in plan.refused()


def test_an_approval_of_the_pair_holds_for_everybody_and_for_these_stores(plan: Plan) -> None:
    grant = models.OutboundGrant.objects.create(agent=plan.agent, hosts=[HOST])
    grant.stores.set([plan.world.store])
    assert not plan.refused()
    other = StoreFactory(owner=plan.world.user, slug="salaries", name="Salaries")
    FileFactory(store=other)
    assert "salaries" in plan.refused()


def test_what_the_author_may_read_needs_no_consent(plan: Plan) -> None:
    assert not plan.refused(scope_of(plan.author))
    plan.world.store.is_public = True
    plan.world.store.save()
    assert not plan.refused()
    # A file in it that the author's groups may not read.
    group = GroupFactory()
    plan.world.user.groups.add(group)
    rag_models.File.objects.filter(store=plan.world.store)[0].restricted_to.set([group])
    assert plan.refused(scope_of(plan.world.user))


def test_an_editor_group_is_an_author_and_a_team_is_one(plan: Plan) -> None:
    plan.agent.owner = plan.world.user
    assert not plan.refused()
    plan.agent.editor_groups.set([GroupFactory()])
    assert plan.refused()
    config = {"agents": ["desk", "courier"]}
    plan.agent = models.Agent.objects.create(
        name="boss", owner=plan.world.user, agent_type="supervisor", config=config
    )
    assert HOST in plan.refused()


def test_what_earlier_answers_and_memories_rest_on_counts(plan: Plan) -> None:
    public = StoreFactory(is_public=True, slug="public", name="Public")
    plan.agent.stores.set([public])
    plan.agent.config = {**OPEN, "tools": ["vector_retrieve", "memory_retrieve"]}
    assert not plan.refused()
    chunks = list(rag_models.Chunk.objects.values_list("pk", flat=True)[:1])
    models.Memory.objects.create(
        user=plan.world.user, kind="episodic", subject="x", text="x", answer="x", chunk_ids=chunks
    )
    assert not plan.refused(), "it calls nobody"
    plan.world.monkeypatch.setattr("agents.tools.grade.Grade.hosts", (HOST,), raising=False)
    plan.agent.config = {**OPEN, "tools": ["memory_retrieve", "grade"]}
    assert plan.refused()
    plan.agent.config = {**OPEN, "tools": ["grade"]}
    assert not plan.refused()
    exposure = agent_exposure(agent=plan.agent, scope=plan.scope, chunk_ids=chunks)
    assert not exposure.is_granted


FIND = {
    "name": "find",
    "type": "rag",
    "config": {"data_sources": [{"type": "vector_store", "collection": "manuals"}]},
}
TELL = {"name": "tell", "type": "rag", "config": {"data_sources": [{"name": "x", **SOURCE}]}}
SHOW = {"name": "show", "type": "human_review", "config": {"message": "Is {rag_context} right?"}}
FETCH = {
    "name": "fetch",
    "type": "rag_files",
    "config": {"fileMode": "variable", "inputMappings": {"files": "{{find.files}}"}},
}


@pytest.mark.parametrize(
    ("node", "host"),
    [(TELL, HOST), (SHOW, "reviewers"), (FETCH, "*")],
    ids=["api", "review", "url"],
)
def test_a_flow_is_held_to_the_same(plan: Plan, node: dict[str, Any], host: str) -> None:
    flow = models.Flow.objects.create(name="f", owner=plan.author, is_public=True)
    definition = load_flow(yaml=flow_of(FIND, node), prompts={})
    exposure = flow_exposure(flow=flow, definition=definition, scope=plan.scope)
    assert exposure.hosts == {host} and not exposure.is_granted
    own = flow_exposure(flow=flow, definition=definition, scope=scope_of(plan.author))
    assert own.is_granted
    quiet = load_flow(yaml=flow_of(FIND), prompts={})
    assert flow_exposure(flow=flow, definition=quiet, scope=plan.scope).hosts == frozenset()


def test_a_plugin_that_says_nothing_may_call_anybody() -> None:
    class Silent:
        name = "silent"

    assert outbound_hosts(Silent, {}) == {"plugin:silent"}
