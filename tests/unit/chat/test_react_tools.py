"""How a model is offered tools, and on what an answer may rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.chat.agents import tools as react_tools
from agents.chat.agents.tools import AgentTools, agent_sources, offered_tool_spec, source_tool_spec
from agents.chat.pipelines.generate_answer import AnswerStream
from agents.chat.pipelines.react_think import has_grounds, is_grounded
from agents.core.agent_config import AgentConfig
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, UnknownNameError
from rag.core.types import Citation

SOURCE = {"type": "vector_store", "description": " Manuals. ", "collection": "manuals"}


@pytest.fixture(autouse=True)
def _nothing_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(react_tools, "_learnt", {})


def tools(*, has_tools: bool = True, stores: Any = (), **config: Any) -> AgentTools:
    agent: Any = SimpleNamespace(settings=AgentConfig.from_dict(config), model="")
    chat: Any = SimpleNamespace(id="test:model", has_tools=has_tools)
    everything = Scope.operator()
    return AgentTools(agent, chat, everything, stores, everything)


@pytest.mark.parametrize(
    ("wish", "has_tools", "learnt", "expected"),
    [
        ("auto", True, "", "native"),
        ("auto", True, "form", "form"),
        ("auto", True, "text", "text"),
        ("auto", False, "", "form"),
        ("auto", False, "text", "text"),
        ("native", False, "text", "native"),
        ("native", True, "", "native"),
        ("text", True, "", "form"),
        ("text", True, "native", "form"),
        ("text", False, "text", "text"),
    ],
)
def test_tools_are_called_as_wished_and_as_was_learnt(
    wish: str, has_tools: bool, learnt: str, expected: str
) -> None:
    made = tools(tool_calling=wish, has_tools=has_tools)
    if learnt:
        react_tools._learnt["test:model"] = learnt
    assert made.calling == expected


def test_what_is_learnt_of_one_model_is_learnt_for_it_alone() -> None:
    tools().learn("text")
    assert tools().calling == "text"
    agent: Any = SimpleNamespace(settings=AgentConfig(), model="")
    other: Any = SimpleNamespace(id="test:other", has_tools=True)
    everything = Scope.operator()
    assert AgentTools(agent, other, everything, (), everything).calling == "native"


def test_a_model_is_not_told_what_the_house_decides() -> None:
    for name in ("grade", "rerank", "query_rewrite"):
        assert "model" not in offered_tool_spec(name=name).parameters["properties"]
    with pytest.raises(UnknownNameError, match="vector_retrieve"):
        offered_tool_spec(name="nothing")
    with pytest.raises(UnknownNameError):
        tools(tools=["nothing"]).specs  # noqa: B018


def test_tools_and_sources_are_offered_once_in_their_order() -> None:
    made = tools(tools=["grade", "vector_retrieve", "grade"], sources={"docs": SOURCE})
    assert [spec.name for spec in made.specs] == ["grade", "vector_retrieve", "docs"]
    assert made.specs[2].description == "Manuals."
    assert list(made.specs[2].parameters["properties"]) == ["query"]
    assert source_tool_spec(
        source=agent_sources(config=AgentConfig(sources={"docs": SOURCE}))["docs"]
    )


def test_a_source_s_time_is_its_own_or_that_of_a_tool() -> None:
    config = AgentConfig(
        tool_timeout_s=7.0, sources={"a": SOURCE, "b": {**SOURCE, "timeout_s": 3, "retries": 2}}
    )
    found = agent_sources(config=config)
    assert (found["a"].call.timeout_s, found["b"].call.timeout_s) == (7.0, 3)
    assert found["b"].call.retries == 2 and found["b"].call.options == {"collection": "manuals"}
    with pytest.raises(InvalidInputError):
        agent_sources(config=AgentConfig(sources={"a": {**SOURCE, "retries": 99}}))


def test_only_tools_of_the_stores_allow_a_short_cut() -> None:
    assert not tools().knows_more
    assert not tools(tools=["vector_retrieve", "grade", "rerank", "query_rewrite"]).knows_more
    assert tools(tools=["vector_retrieve", "memory_retrieve"]).knows_more
    assert tools(sources={"docs": SOURCE}).knows_more
    store: Any = SimpleNamespace(pk=7)
    assert tools(stores=[store]).searches_stores and not tools().searches_stores
    assert not tools(stores=[store], tools=["grade"]).searches_stores


def run(*, searches: bool = True, **config: Any) -> Any:
    return SimpleNamespace(
        config=AgentConfig.from_dict(config),
        can_write=True,
        tools=SimpleNamespace(searches_stores=searches),
        model_id="test:model",
    )


def answer_stream(*verdicts: str) -> AnswerStream:
    made = AnswerStream(run())
    made.writer.citations = [
        Citation(n, "doc_01", "q", verdict) for n, verdict in enumerate(verdicts, 1)
    ]
    return made


CALL = {"is_error": False, "n_results": 1}


@pytest.mark.parametrize(
    ("verdicts", "state", "config", "expected"),
    [
        ((), {}, {}, False),
        (("verified",), {}, {}, True),
        (("altered", "wrong_document"), {}, {}, True),
        (("altered", "unknown"), {}, {}, False),
        ((), {"passages": ["p"], "confidence": 0.9}, {}, True),
        ((), {"passages": ["p"], "confidence": 0.2}, {}, False),
        ((), {"confidence": 0.9}, {}, False),
        ((), {"tool_calls": [CALL]}, {}, False),
        ((), {"tool_calls": [{**CALL, "n_results": None}]}, {}, True),
        ((), {"tool_calls": [{**CALL, "n_results": None, "is_error": True}]}, {}, False),
        ((), {"memories": "- Known: the HX-400"}, {}, True),
        ((), {}, {"enable_source_citation": False}, True),
    ],
)
def test_an_answer_rests_on_quotes_results_memories_or_a_sure_search(
    verdicts: tuple[str, ...], state: Any, config: dict[str, Any], expected: bool
) -> None:
    asked = {"query": "Which pump is mine?", **state}
    assert is_grounded(answer_stream(*verdicts), asked, run(**config)) is expected  # type: ignore[arg-type]


def test_an_agent_that_looks_nothing_up_answers_as_it_likes() -> None:
    assert is_grounded(answer_stream(), {"query": "?"}, run(searches=False))
    assert has_grounds({"query": "?"}, run(searches=False))
    assert not has_grounds({"query": "?"}, run(searches=False, sources={"docs": SOURCE}))
    assert not is_grounded(answer_stream(), {"query": "?", "memories": "x"}, run())
