"""Flows that ask files: a store and files by address, on local stores and without a key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.runs.control import rerun_flow
from agents.flows.runs.start import RunRequest
from agents.flows.runs.worker import run_to_end
from agents.flows.versions.versions import activate_version, check_flow_files, save_flow_version
from rag.core.access import Scope
from rag.core.rag_node import RAGNodeData
from rag.services.access.api_keys import scope_of
from rag.services.answers.rag_node import find_rag_node, save_rag_node
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.fakes.loopback import LoopbackServer, Reply
from tests.integration.flow_world import house as house
from tests.integration.flow_world import run_flow

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("house")]
WARRANTY = "The warranty lasts two years. It covers parts and labour."
COLOUR = "The lamp is painted blue."
QUESTION = "How long does the warranty last?"
FLOW = """\
name: files
inputs: {{documents: files to read}}
nodes:
  - {{name: manual, type: rag_files, config: {{label: 手册, fileMode: static, fileSearchStoreName: {store}}}}}
  - name: sent
    type: rag_files
    config:
      fileMode: variable
      inputMappings: {{query: "Is the lamp painted blue? {{{{手册.mode}}}}", files: "{{{{documents}}}}"}}
edges:
  - {{from: manual, to: sent, condition: manual.documentCount > 0 && manual.mode == "fileSearch"}}
  - {{from: manual, to: END, condition: default}}
  - {{from: sent, to: END}}
entry_node: manual
"""


@pytest.fixture
def owner() -> Scope:
    return scope_of(UserFactory())


@pytest.fixture
def store(owner: Scope) -> Any:
    store = StoreFactory(owner_id=owner.user_id)
    publish(FileFactory(store=store, name="手册.pdf"), WARRANTY)
    return store


def flow_of(text: str, owner: Scope) -> models.Flow:
    version = save_flow_version(files=FlowFiles(text, {}), scope=owner)
    activate_version(version=version, scope=owner)
    return version.flow


def test_both_modes_run_in_one_flow_without_a_key(store: Any, owner: Scope, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "FETCH_HOSTS": ("127.0.0.1",)}
    flow = flow_of(FLOW.format(store=store.resource_name), owner)
    with LoopbackServer() as web:
        web.route("GET", "/lamp.txt", lambda call: Reply(COLOUR.encode()))
        files = [{"name": "lamp.txt", "url": f"{web.origin}/lamp.txt", "type": "text/plain"}]
        request = RunRequest(flow=flow, scope=owner, message=QUESTION, given={"documents": files})
        run = run_flow(request=request)
    assert (run.status, run.error) == ("done", None)
    found = run.state["rag_results"]
    assert found["manual"] == [{"content": WARRANTY, "metadata": {"source": "手册.pdf"}}]
    assert COLOUR in found["sent"][0]["content"]
    assert found["sent"][0]["metadata"] == {"source": "lamp.txt"}
    sent = run.state["prompt_vars"]["sent"]
    assert sent["mode"] == "multimodal" and sent["documentCount"] == 1
    assert sent["query"] == "Is the lamp painted blue? fileSearch"
    assert len(run.state["flow_msgs"]) == 2
    # The server is gone: only recorded answers can be given again.
    recorded = rerun_flow(run=run, scope=owner, from_node="manual", answers="recorded")
    again = async_to_sync(run_to_end)(run=recorded)
    assert (again.status, again.state["rag_results"]) == ("done", found)
    fresh = rerun_flow(run=run, scope=owner, from_node="sent")
    failed = async_to_sync(run_to_end)(run=fresh)
    assert (failed.status, failed.error["code"]) == ("error", "provider")


def test_a_store_answers_only_those_who_may_read_it(store: Any, owner: Scope) -> None:
    flow = flow_of(FLOW.format(store=store.resource_name), owner)
    flow.is_public = True
    flow.save()
    stranger = scope_of(UserFactory())
    run = run_flow(request=RunRequest(flow=flow, scope=stranger, message="warranty"))
    assert (run.status, run.error["code"]) == ("error", "not_found")
    findings = check_flow_files(
        files=FlowFiles(FLOW.format(store=store.resource_name)), scope=stranger
    )
    assert [(one.level, one.line) for one in findings] == [("error", 4)]
    missing = check_flow_files(
        files=FlowFiles(FLOW.format(store="fileSearchStores/none")), scope=owner
    )
    assert "fileSearchStores/none" in missing[0].text


def test_a_saved_node_is_asked_by_its_id_and_keeps_what_was_asked(store: Any, owner: Scope) -> None:
    data = RAGNodeData.from_wire({"fileSearchStoreName": store.resource_name})
    save_rag_node(scope=owner, node_id="builder-1", data=data)
    node = {"name": "ask", "type": "rag_files", "config": {"node_id": "builder-1"}}
    text = json.dumps(
        {
            "name": "saved",
            "nodes": [node],
            "entry_node": "ask",
            "edges": [{"from": "ask", "to": "END"}],
        }
    )
    flow = flow_of(text, owner)
    run = run_flow(request=RunRequest(flow=flow, scope=owner, message=QUESTION))
    assert run.status == "done", run.error
    assert run.state["rag_results"]["ask"][0]["content"] == WARRANTY
    kept = find_rag_node(scope=owner, node_id="builder-1").node_data
    assert (kept.search_query, list(kept.found_documents or ())) == (
        QUESTION,
        [WARRANTY],
    )
    flow.is_public = True
    flow.save()
    other = run_flow(request=RunRequest(flow=flow, scope=scope_of(UserFactory()), message="x"))
    assert (other.status, other.error["code"]) == ("error", "not_found")
