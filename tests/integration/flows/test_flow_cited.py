"""Answers of flows: passages numbered for the run, citations of any node, verdicts, restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from asgiref.sync import async_to_sync

from agents import models
from agents.core.chat_events import FlowEvent
from agents.flows.definition.archive import FlowFiles
from agents.flows.runs.control import rerun_flow
from agents.flows.runs.read import run_summary
from agents.flows.runs.start import RunRequest, arun_flow, stream_flow
from agents.flows.runs.worker import run_to_end
from agents.flows.versions.versions import activate_version, save_flow_version
from rag.core.ports import ChatRequest
from tests.integration.agent_world import QUOTE, AgentWorld, world

__all__ = ["world"]

ASKED = "How often is the pump serviced?"
FIND = {"type": "vector_store", "name": "manuals", "collection": "manuals", "top_k": 3}
ANSWER = "Answer from this: {rag_context}"
CITE = f'<cite doc_id="doc_01" quote="{QUOTE}"></cite>'


def flow_of(world: AgentWorld, nodes: Mapping[str, Any], prompts: Mapping[str, str]) -> models.Flow:
    """Return a flow whose nodes run one after the other; a text is the prompt of an agent."""
    made = []
    for name, config in nodes.items():
        kind = "rag" if "data_sources" in config else config.get("type", "agent")
        rest = {key: one for key, one in config.items() if key != "type"}
        made.append({"name": name, "type": kind, "config": rest})
    names = [*nodes, "END"]
    edges = [{"from": a, "to": b} for a, b in pairwise(names)]
    text = {"name": "desk", "nodes": made, "edges": edges, "entry_node": names[0]}
    version = save_flow_version(files=FlowFiles(json.dumps(text), prompts), scope=world.scope)
    activate_version(version=version, scope=world.scope)
    return version.flow


def simple_flow(world: AgentWorld, **config: Any) -> models.Flow:
    nodes = {"find": {"data_sources": [FIND]}, "answer": {"prompt": "p.md", **config}}
    return flow_of(world, nodes, {"p.md": ANSWER})


def run_of(world: AgentWorld, flow: models.Flow, message: str = ASKED) -> models.FlowRun:
    request = RunRequest(flow=flow, scope=world.scope, message=message)
    return async_to_sync(arun_flow)(request=request)


def events_of(world: AgentWorld, flow: models.Flow) -> list[FlowEvent]:
    async def told() -> list[FlowEvent]:
        request = RunRequest(flow=flow, scope=world.scope, message=ASKED)
        return [event async for event in stream_flow(request=request)]

    return async_to_sync(told)()


def verdicts(told: Mapping[str, Any]) -> list[str]:
    return [one["verdict"] for one in told["grounding"].get("statements", ())]


def test_what_a_node_cites_is_resolved_and_every_sentence_judged(world: AgentWorld) -> None:
    world.use(f"It is serviced every 30 days {CITE}. Mars owns it [2]. See also [77].")
    run = run_of(world, simple_flow(world))
    assert run.status == "done", run.error
    assert run.answer == "It is serviced every 30 days [1]. Mars owns it [2]. See also [77]."
    assert verdicts(vars(run)) == ["cited", "unsupported", "unsupported"]
    assert (run.outcome, run.grounding["verdict"], run.grounding["n_found"]) == (
        "partial",
        "partly",
        1,
    )
    first = run.citations[0]
    assert (first["number"], first["verdict"], first["found"]) == (1, "verified", QUOTE)
    assert first["file_name"] == "pump manual.txt" and first["chunk_id"]
    # Nodes behind it read what the model wrote.
    assert run.state["flow_msgs"][-1]["content"].startswith(f"It is serviced every 30 days {CITE}")
    done = run.events.get(kind="done").data
    assert {name: done[name] for name in ("answer", "outcome", "citations", "grounding")} == {
        "answer": run.answer,
        "outcome": run.outcome,
        "citations": run.citations,
        "grounding": run.grounding,
    }
    told = run_summary(run=run, scope=world.scope)
    assert (told["answer"], told["grounding"]) == (run.answer, run.grounding)
    assert [one["doc_id"] for one in told["passages"]] == ["doc_01", "doc_02"]
    assert told["passages"][0]["content"].startswith(QUOTE)


def test_a_stream_shows_what_the_run_keeps(world: AgentWorld) -> None:
    world.use(f"Every 30 days {CITE}. Mars owns it.")
    events = events_of(world, simple_flow(world))
    shown = "".join(event.data["text"] for event in events if event.kind == "token")
    finished = next(one for one in events if one.kind == "node_finished" and one.node == "answer")
    done = events[-1]
    assert shown == done.data["answer"] == finished.data["response_content"]
    assert shown == "Every 30 days [1]. Mars owns it."
    assert finished.data["grounding"] == done.data["grounding"]
    assert verdicts(done.data) == ["cited", "unsupported"]


def test_models_are_told_how_to_cite_where_passages_are_shown(world: AgentWorld) -> None:
    chat = world.use("Every 30 days [1].")
    run_of(world, simple_flow(world))
    (request,) = chat.requests
    system = request.messages[0].content
    assert system.startswith("Answer from this: ## manuals\n\n[1] pump manual.txt")
    assert "put the number of the passage behind each sentence" in system
    doc_id, text = request.passages[0]
    assert doc_id == "doc_01" and text.startswith(QUOTE)


def test_two_retrieval_nodes_number_through_and_both_can_be_cited(world: AgentWorld) -> None:
    library = {**FIND, "name": "library", "top_k": 1}
    other = {"data_sources": [library], "query": "Seeds are borrowed from the library until"}
    nodes = {
        "find": {"data_sources": [{**FIND, "top_k": 1}], "merge_strategy": "replace"},
        "first": {"prompt": "p.md"},
        "more": {**other, "merge_strategy": "replace"},
        "again": {"data_sources": [{**FIND, "top_k": 1}]},
        "last": {"prompt": "p.md"},
    }
    flow = flow_of(world, nodes, {"p.md": ANSWER + " {flow_msgs}"})
    seeds = "Seeds are borrowed from the library until 15 November."

    def said(request: ChatRequest) -> str:
        system = request.messages[0].content
        if "## library" not in system:
            return f"Every 30 days {CITE}."
        assert "[2] library.txt" in system and "[1] pump manual.txt" in system
        return f"Every 30 days {CITE}. {seeds} [2]"

    world.use(said)
    run = run_of(world, flow)
    assert run.error is None
    assert [one["number"] for one in run.citations] == [1, 2]
    assert (run.outcome, verdicts(vars(run))) == ("answered", ["cited", "cited"])
    assert len(run_summary(run=run, scope=world.scope)["passages"]) == 2


def test_a_run_that_looks_nothing_up_has_no_verdicts(world: AgentWorld) -> None:
    world.use("Hello [1].")
    run = run_of(world, flow_of(world, {"talk": {"prompt": "p.md"}}, {"p.md": "Greet."}))
    assert (run.answer, run.outcome, run.grounding, run.citations) == (
        "Hello [1].",
        "uncited",
        {},
        [],
    )


def test_without_anything_found_nothing_is_answered(world: AgentWorld) -> None:
    world.store.files.all().delete()
    world.use("Every 999 days [1].")
    run = run_of(world, simple_flow(world))
    assert (run.outcome, verdicts(vars(run))) == ("ungrounded", ["unsupported"])


JSON = json.dumps(
    {"response_content": "Every 30 days [1]. Mars owns it.", "verdict": "good [1]", "why": "Mars."}
)


def test_what_is_for_people_in_a_json_answer_is_judged_and_the_rest_left_alone(
    world: AgentWorld,
) -> None:
    chat = world.use(JSON)
    prompt = 'As JSON {"response_content": "…", "verdict": "good|bad"} from {rag_context}'
    nodes = {"find": {"data_sources": [FIND]}, "judge": {"prompt": "p.md"}}
    run = run_of(world, flow_of(world, nodes, {"p.md": prompt}))
    assert run.state["edges_var"] == {"verdict": "good [1]", "why": "Mars.", "parse_error": False}
    assert (run.answer, verdicts(vars(run))) == (
        "Every 30 days [1]. Mars owns it.",
        ["cited", "unsupported"],
    )
    assert "write for people" in chat.requests[0].messages[0].content


def test_a_node_that_only_decides_is_told_nothing_of_citing(world: AgentWorld) -> None:
    chat = world.use('{"verdict": "good"}')
    nodes = {"find": {"data_sources": [FIND]}, "judge": {"prompt": "p.md"}}
    prompt = 'As JSON {"verdict": "good|bad"} from {rag_context}'
    run = run_of(world, flow_of(world, nodes, {"p.md": prompt}))
    assert "square brackets" not in chat.requests[0].messages[0].content
    finished = run.events.get(kind="node_finished", node="judge").data
    assert (run.answer, "grounding" in finished) == ("", False)


def test_sentences_that_no_source_says_can_be_dropped(world: AgentWorld) -> None:
    world.use("Every 30 days [1]. Mars owns it.")
    run = run_of(world, simple_flow(world, citation_failure="drop"))
    assert run.answer.strip() == "Every 30 days [1]."
    assert run.state["flow_msgs"][-1]["content"] == run.answer
    world.use("Mars owns it.")
    run = run_of(world, simple_flow(world, citation_failure="drop"))
    assert run.answer.startswith("I do not know: no sentence") and run.outcome == "not_found"


def test_an_answer_can_be_written_anew(world: AgentWorld) -> None:
    def said(request: ChatRequest) -> str:
        is_repair = "Write the whole answer again" in request.messages[-1].content
        return "Every 30 days [1]." if is_repair else "Mars owns it [1]."

    chat = world.use(said)
    run = run_of(world, simple_flow(world, citation_failure="repair"))
    assert (run.answer, run.outcome, len(chat.requests)) == ("Every 30 days [1].", "answered", 2)
    assert run.state["flow_msgs"][-1]["content"] == run.answer
    world.use("Mars owns it [1].")
    run = run_of(world, simple_flow(world, citation_failure="repair"))
    assert (run.answer, run.outcome) == ("Mars owns it [1].", "ungrounded")


def test_rows_items_and_tools_are_passages_too(world: AgentWorld, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "SOURCE_DATABASES": ("default",)}
    rows = {
        "type": "database",
        "name": "prices",
        "query_template": "SELECT 'pump' AS part, 450 AS price, 'yuan' AS unit",
    }
    source = {**FIND, "name": "look", "description": "Looks into the manuals."}
    nodes = {
        "find": {"data_sources": [rows]},
        "answer": {"prompt": "p.md", "tools": [source]},
    }

    def said(request: ChatRequest) -> str:
        last = request.messages[-1].content
        if not last.startswith("look: "):
            return json.dumps({"tool": "look", "arguments": {"query": ASKED}})
        assert last.endswith("Its results are cited as [2], [3], in their order.")
        price = '<cite doc_id="doc_01" quote="price: 450">The price is 450</cite>'
        return f"{price}. It is serviced every 30 days [2]."

    world.use(said)
    run = run_of(world, flow_of(world, nodes, {"p.md": ANSWER}))
    assert run.error is None
    assert (run.outcome, verdicts(vars(run))) == ("answered", ["cited", "cited"])
    assert [one["file_name"] for one in run.citations] == ["default", "pump manual.txt"]
    passages = run_summary(run=run, scope=world.scope)["passages"]
    assert passages[0]["content"] == "part: pump\nprice: 450\nunit: yuan"


def test_after_a_restart_numbers_and_verdicts_are_the_same(world: AgentWorld) -> None:
    nodes = {
        "find": {"data_sources": [FIND]},
        "first": {"prompt": "p.md"},
        "more": {"data_sources": [{**FIND, "name": "more"}], "query": "Seeds are borrowed"},
        "last": {"prompt": "p.md"},
    }
    flow = flow_of(world, nodes, {"p.md": ANSWER})
    text = f"Every 30 days {CITE}. Mars owns it [4]."
    world.use(text)
    whole = run_of(world, flow)
    assert whole.error is None

    def lost_after(keep: Callable[[models.RunEvent], bool]) -> models.FlowRun:
        run = run_of(world, flow)
        last = max(row.seq for row in run.events.all() if keep(row))
        run.events.filter(seq__gt=last).delete()
        models.FlowRun.objects.filter(pk=run.pk).update(
            status="running", worker=None, answer="", citations=[], grounding={}, outcome=""
        )
        run.refresh_from_db()
        return async_to_sync(run_to_end)(run=run)

    for node in nodes:
        run = lost_after(lambda row, node=node: row.kind == "node_finished" and row.node == node)  # type: ignore[misc]
        assert (run.answer, run.grounding, run.citations) == (
            whole.answer,
            whole.grounding,
            whole.citations,
        )
        mine, theirs = (
            [
                (one["doc_id"], one["content"])
                for one in run_summary(run=one_, scope=world.scope)["passages"]
            ]
            for one_ in (run, whole)
        )
        assert mine == theirs
    again = async_to_sync(run_to_end)(
        run=rerun_flow(run=whole, scope=world.scope, from_node="last", answers="recorded")
    )
    assert (again.answer, again.citations) == (whole.answer, whole.citations)
