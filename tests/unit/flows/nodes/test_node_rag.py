"""The rag node and its kin: who is asked what and when, what is kept, what is said of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agents.core.source_configs import DataQueryConfig, RagNodeConfig
from agents.core.state import Replace
from agents.flows.definition.state import initial_state
from agents.flows.nodes.data_query import DataQueryNode
from agents.flows.nodes.rag import RagNode
from rag.core.errors import InvalidInputError, ProviderError, RAGError
from tests.unit.flows.test_flow_state import FLOW
from tests.unit.node_world import NotedRun

CHUNK = {"content": "five days", "score": 0.85, "metadata": {"source": "guide.pdf", "page": 42}}
ROW = {"patient_id": "12345", "diagnosis": "高血压", "medications": ["药物A", "药物B"]}


def find(
    run: NotedRun, *sources: dict[str, Any], state: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    config = RagNodeConfig.model_validate({"data_sources": list(sources), **more})
    full = {**initial_state(FLOW, "年假？", {"token_id": "me"}), **(state or {})}
    return asyncio.run(RagNode().run(full, config, run))


def test_results_have_the_shape_of_the_description() -> None:
    run = NotedRun(sources={"kb": [CHUNK], "rows": [ROW], "service": {"status": "success"}})
    update = find(
        run,
        {
            "type": "vector_store",
            "name": "kb",
            "collection": "c",
            "timeout": 3,
            "retries": 2,
            "cache_ttl": 60,
        },
        {"type": "database", "name": "rows"},
        {"type": "api", "name": "service"},
    )
    found = update["rag_results"]
    (chunk,) = found["kb"]
    assert (chunk["content"], chunk["score"]) == ("five days", 0.85)
    assert chunk["metadata"]["source"] == "guide.pdf"
    assert (chunk["metadata"]["page"], chunk["metadata"]["section"]) == (42, "")
    assert (found["rows"], found["service"]) == ([ROW], [{"status": "success"}])
    asked = run.asked[0]
    assert run.names() == [["kb", "rows", "service"]]
    assert (asked.calls[0].options, asked.calls[0].timeout_s, asked.calls[0].retries) == (
        {"collection": "c"},
        3,
        2,
    )
    assert (asked.text, asked.values["token_id"], asked.ttls_s) == ("年假？", "me", {"kb": 60})


def test_the_query_context_says_what_was_asked_and_found() -> None:
    run = NotedRun(sources={"kb": [CHUNK, CHUNK], "rows": {"error": "the database is down"}})
    update = find(run, {"type": "vector_store", "name": "kb"}, {"type": "database", "name": "rows"})
    context = update["query_context"]
    assert (context["query_text"], context["data_sources"], context["result_count"]) == (
        "年假？",
        ["kb", "rows"],
        2,
    )
    assert (context["counts"], context["errors"]) == (
        {"kb": 2, "rows": 0},
        {"rows": "The source fails: the database is down"},
    )
    assert context["query_time"].endswith("+00:00")
    assert context["nodes"]["node"]["counts"] == {"kb": 2, "rows": 0}
    assert update["rag_results"] == {"kb": update["rag_results"]["kb"], "rows": []}
    (kind, data) = run.events[0]
    assert (kind, data["result_key"], data["errors"]) == (
        "rag_results",
        "rag_results",
        context["errors"],
    )


def test_raw_results_are_all_that_is_known() -> None:
    update = find(
        NotedRun(sources={"kb": [CHUNK]}), {"type": "x", "name": "kb"}, result_format="raw"
    )
    assert update["rag_results"]["kb"][0].keys() >= {
        "content",
        "score",
        "rank",
        "heading_path",
        "chunk_id",
        "source",
    }


def test_results_can_replace_and_have_a_channel_of_their_own() -> None:
    update = find(
        NotedRun(sources={"kb": []}),
        {"type": "x", "name": "kb"},
        merge_strategy="replace",
        result_key="policy",
    )
    assert update["policy"] == Replace({"kb": []})
    assert "rag_results" not in update


def test_a_query_may_be_a_template() -> None:
    run = NotedRun(sources={"kb": []})
    find(
        run,
        {"type": "x", "name": "kb"},
        query="about {topic}: {user_query}",
        state={"edges_var": {"topic": "leave"}},
    )
    assert run.asked[0].text == "about leave: 年假？"
    with pytest.raises(InvalidInputError, match="has no query"):
        find(
            run,
            {"type": "x", "name": "kb"},
            query=" {empty} ",
            state={"prompt_vars": {"empty": ""}},
        )


def test_one_after_the_other_passes_results_on() -> None:
    run = NotedRun(
        sources={"patients": [{"id": 7, "no": "a"}, {"id": 8}], "visits": [ROW], "docs": []}
    )
    find(
        run,
        {"type": "x", "name": "visits", "depends_on": "patients"},
        {"type": "x", "name": "patients"},
        {"type": "x", "name": "docs", "depends_on": ["visits", "patients"]},
        query_strategy="sequential",
    )
    assert run.names() == [["patients"], ["visits"], ["docs"]]
    values = run.asked[1].values
    assert values["patients"] == [{"id": 7, "no": "a"}, {"id": 8}]
    assert (values["patients__id"], values["patients__all__id"], values["patients__all__no"]) == (
        7,
        [7, 8],
        ["a", None],
    )
    assert run.asked[2].values["visits__diagnosis"] == "高血压"
    assert "patients" not in run.asked[0].values


def test_what_depends_on_a_failed_source_is_not_asked() -> None:
    run = NotedRun(sources={"a": {"error": "down"}, "b": [ROW], "c": [ROW]})
    update = find(
        run,
        {"type": "x", "name": "a"},
        {"type": "x", "name": "b", "depends_on": "a"},
        {"type": "x", "name": "c"},
        query_strategy="sequential",
    )
    assert run.names() == [["a"], ["c"]]
    assert update["query_context"]["errors"] == {
        "a": "The source fails: down",
        "b": "Not asked: it needs “a”, which failed.",
    }
    assert update["query_context"]["counts"] == {"a": 0, "b": 0, "c": 1}
    # The run's page reads them in another language, so the event has their templates, too.
    faults = run.events[-1][1]["faults"]
    assert faults["b"] == {
        "message": "Not asked: it needs “{name}”, which failed.",
        "hint": "",
        "params": {"name": "a"},
    }
    assert str(RAGError.from_dict(faults["a"])) == "The source fails: down"


def test_a_source_that_must_not_fail_ends_the_node() -> None:
    run = NotedRun(sources={"a": {"error": "down"}})
    with pytest.raises(ProviderError, match="The source “a” failed: The source fails: down"):
        find(run, {"type": "x", "name": "a", "on_error": "fail"})


def test_what_exceeds_the_tokens_is_left_out_fairly_and_said() -> None:
    run = NotedRun(
        sources={"many": [{"n": n, "t": "x" * 20} for n in range(20)], "one": [{"n": 1}]}
    )
    update = find(run, {"type": "x", "name": "many"}, {"type": "x", "name": "one"}, max_tokens=200)
    found = update["rag_results"]
    assert found["one"] == [{"n": 1}]
    assert 1 <= len(found["many"]) < 8
    assert update["query_context"]["notes"] == [
        f"many: {len(found['many'])} of 20 results kept within 200 tokens."
    ]


def test_one_result_that_is_too_long_is_shortened() -> None:
    run = NotedRun(sources={"kb": [{"content": "word " * 1000, "metadata": {"source": "a"}}]})
    (result,) = find(run, {"type": "x", "name": "kb"}, max_tokens=1000)["rag_results"]["kb"]
    assert 100 < len(result["content"]) < 1000
    assert result["content"].endswith("…")


def test_a_data_query_does_the_same_without_vectors() -> None:
    run = NotedRun(sources={"rows": [ROW]})
    config = DataQueryConfig.model_validate(
        {"data_sources": [{"type": "database", "name": "rows"}]}
    )
    update = asyncio.run(DataQueryNode().run(initial_state(FLOW, "x"), config, run))
    assert update["rag_results"] == {"rows": [ROW]}


def test_what_is_not_set_yet_is_nothing_for_a_source_and_empty_in_a_query() -> None:
    run = NotedRun(sources={"rows": [ROW]})
    config = {
        "data_sources": [
            {"type": "database", "name": "rows", "query_template": "SELECT {unset}, {user_query}"}
        ],
        "query": "about {unset}leave",
    }
    asyncio.run(RagNode().run(initial_state(FLOW, "x"), RagNodeConfig.model_validate(config), run))
    (asked,) = run.asked
    assert (asked.text, asked.values["unset"], asked.values["user_query"]) == (
        "about leave",
        None,
        "x",
    )
