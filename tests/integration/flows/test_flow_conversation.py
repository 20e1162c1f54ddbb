"""A run's conversation: earlier runs of its session, whose they are, memories, what is gone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.runs.conversation import MAX_EXCHANGES
from agents.flows.runs.read import run_summary
from agents.flows.runs.start import RunRequest, arun_flow
from agents.flows.versions.versions import activate_version, save_flow_version
from rag.core.access import Scope
from rag.core.ports import ChatRequest
from rag.services.access.api_keys import scope_of
from rag.services.files.delete import delete_files
from tests.factories import UserFactory
from tests.integration.agent_world import AgentWorld, world
from tests.integration.flows.test_flow_cited import ANSWER, CITE, FIND

__all__ = ["world"]

UNGUESSED = "7b1a6a5e-9a53-4c1e-8f55-0d5f0e7b6c11"


@pytest.fixture
def flow(world: AgentWorld) -> models.Flow:
    text = {
        "name": "desk",
        "memory": "desk",
        "nodes": [
            {"name": "find", "type": "rag", "config": {"data_sources": [FIND]}},
            {"name": "answer", "type": "agent", "config": {"prompt": "p.md"}},
        ],
        "edges": [{"from": "find", "to": "answer"}, {"from": "answer", "to": "END"}],
        "entry_node": "find",
    }
    prompts = {"p.md": ANSWER + "\nRemembered: {recalled_memories}"}
    version = save_flow_version(files=FlowFiles(json.dumps(text), prompts), scope=world.scope)
    activate_version(version=version, scope=world.scope)
    version.flow.is_public = True
    version.flow.save()
    return version.flow


def heard(world: AgentWorld) -> list[ChatRequest]:
    asked: list[ChatRequest] = []

    def said(request: ChatRequest) -> str:
        asked.append(request)
        return f"Every 30 days {CITE}."

    world.use(said)
    return asked


def ask(flow: models.Flow, scope: Scope, message: str, **given: Any) -> models.FlowRun:
    request = RunRequest(flow=flow, scope=scope, message=message, given=given)
    run = async_to_sync(arun_flow)(request=request)
    assert run.status == "done", run.error
    return run


def turns(asked: list[ChatRequest]) -> list[str]:
    return [one.content for one in asked[-1].messages[1:]]


def test_a_session_is_the_conversation_of_its_runs(flow: models.Flow, world: AgentWorld) -> None:
    asked = heard(world)
    ask(flow, world.scope, "How often is the pump serviced?", session_id="s1")
    run = ask(flow, world.scope, "And by whom?", session_id="s1")
    assert turns(asked) == [
        "How often is the pump serviced?",
        "Every 30 days [1].",
        "And by whom?",
    ]
    assert run.state["history_messages"][1]["content"] == "Every 30 days [1]."
    ask(flow, world.scope, "Of another session", session_id="s2")
    assert turns(asked) == ["Of another session"]
    assert MAX_EXCHANGES == 20
    given = [{"role": "user", "content": "mine"}]
    ask(flow, world.scope, "Given by hand", session_id="s1", history_messages=given)
    assert turns(asked) == ["mine", "Given by hand"]


def test_a_session_is_nobody_elses(flow: models.Flow, world: AgentWorld) -> None:
    asked = heard(world)
    ask(flow, world.scope, "Mine", session_id="s1")
    ask(flow, scope_of(UserFactory()), "Somebody else", session_id="s1")
    assert turns(asked) == ["Somebody else"]
    nobody = Scope.anonymous()
    for session, before in (("s1", []), (UNGUESSED, ["First", "Every 30 days."])):
        ask(flow, nobody, "First", session_id=session)
        ask(flow, nobody, "Second", session_id=session)
        assert [one.replace(" [1]", "") for one in turns(asked)][: len(before)] == before
        assert len(turns(asked)) == len(before) + 1


def test_what_is_deleted_is_told_to_no_later_run(flow: models.Flow, world: AgentWorld) -> None:
    asked = heard(world)
    first = ask(flow, world.scope, "How often is the pump serviced?", session_id="s1")
    second = ask(flow, world.scope, "And by whom?", session_id="s1")
    assert set(first.chunk_ids) <= set(second.chunk_ids)
    file_id = models.FlowRun.objects.get(pk=first.pk).passages[0]["file_id"]
    delete_files(scope=Scope.operator(), file_ids=[file_id])
    second.refresh_from_db()
    told = json.dumps([second.start, run_summary(run=second, scope=world.scope, is_whole=True)])
    assert "30 days" not in told
    ask(flow, world.scope, "Once more", session_id="s1")
    assert "30 days" not in "".join(turns(asked))


def test_what_a_person_told_is_remembered_by_the_flow(flow: models.Flow, world: AgentWorld) -> None:
    asked = heard(world)
    ask(flow, world.scope, "My name is Amara Okafor. How often is the pump serviced?")
    assert models.Memory.objects.filter(project="desk", user_id=world.scope.user_id).exists()
    ask(flow, world.scope, "What is my name?")
    assert "Amara Okafor" in asked[-1].messages[0].content.partition("Remembered:")[2]
    ask(flow, Scope.anonymous(), "What is my name?")
    assert "Amara" not in asked[-1].messages[0].content
