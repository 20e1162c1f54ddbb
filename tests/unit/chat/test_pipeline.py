"""A pipeline does the same on each engine, grows by a line, and each step fails by its own rule."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pytest

from agents.chat.agents.agent import engine_for
from agents.chat.engine import langgraph as rag
from agents.chat.engine import plain
from agents.chat.engine.langgraph import GraphEngine
from agents.chat.engine.plain import PlainEngine
from agents.chat.pipelines.rag import rag_pipeline, search_step
from agents.core.agent_config import AgentConfig
from agents.core.draw_pipeline import pipeline_json, pipeline_mermaid
from agents.core.pipeline import END, Branch, FoundHits, Pipeline, PipelineState, Step, run_stage
from rag.core.errors import (
    ConfigurationError,
    InvalidInputError,
    LimitError,
    ProviderError,
    ProviderTimeoutError,
    RAGError,
    UnknownNameError,
)

ENGINES = pytest.mark.parametrize("engine", [PlainEngine, GraphEngine])


@dataclass
class Run:
    """A run that only records."""

    config: AgentConfig = field(default_factory=AgentConfig)
    told: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    async def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        self.told.append((kind, data))


def note(name: str, key: str = "query") -> Step:
    async def add(state: PipelineState, run: Any) -> PipelineState:
        return {key: f"{state.get(key, '')}{name}"}  # type: ignore[misc]

    return Step(name, add)


def run(engine: Any, pipeline: Pipeline, state: Any, lent: Any = None) -> Any:
    return asyncio.run(engine(pipeline).run(state, lent or Run()))


@ENGINES
def test_stages_follow_one_another(engine: Any) -> None:
    pipeline = Pipeline(((note("a"),), (note("b"),), (note("c"),)))
    assert run(engine, pipeline, {"query": ">"})["query"] == ">abc"


@ENGINES
def test_a_step_more_is_one_line(engine: Any) -> None:
    pipeline = Pipeline(((note("a"),), (note("c"),)))
    longer = pipeline.with_step(note("b"), after="a").with_step(note("0"))
    assert run(engine, longer, {"query": ""})["query"] == "0abc"
    assert pipeline.names == ("a", "c"), "a pipeline never changes in place"


@ENGINES
def test_of_steps_side_by_side_only_those_that_are_on_are_told(engine: Any) -> None:
    def off(state: PipelineState) -> bool:
        return False

    steps = (replace(note("a"), is_on=off), note("b"), replace(note("c"), is_on=off))
    pipeline, lent = Pipeline((steps, (note("d"),))), Run()
    assert run(engine, pipeline, {"query": ">"}, lent)["query"] == ">bd"
    assert [data["step"] for _, data in lent.told] == ["b", "d"]
    alone = Pipeline(((steps[0], steps[2]), (note("d"),)))
    assert run(engine, alone, {"query": ">"})["query"] == ">d"


@ENGINES
def test_stages_that_are_off_take_no_turn(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_query(state: PipelineState) -> bool:
        return bool(state["query"])

    turns = []

    async def counted(stage: Any, state: Any, lent: Any) -> Any:
        turns.append(stage[0].name)
        return await run_stage(stage, state, lent)

    for module in (plain, rag):
        monkeypatch.setattr(module, "run_stage", counted)
    optional = [replace(note(name), is_on=with_query) for name in "abcde"]
    pipeline = Pipeline(tuple((step,) for step in (*optional[:3], note("x"), *optional[3:])))
    assert run(engine, pipeline, {"query": ""})["query"] == "xde"
    assert turns == ["x", "d", "e"]
    off = replace(note("b"), is_on=lambda state: False)
    forked = Pipeline(((note("a"),), (off,), (off_too(off),), (note("d"),)))
    turns.clear()
    assert run(engine, forked, {"query": ""})["query"] == "ad" and turns == ["a", "d"]
    # A branch decides behind its own stage, whether that one is on or not.
    decided = forked.with_branch("b", Branch(lambda state: END, (END, "c")))
    assert run(engine, decided, {"query": ""})["query"] == "a"
    nothing = Pipeline(((off,),))
    assert run(engine, nothing, {"query": "?"}) == {"query": "?"}


def off_too(step: Step) -> Step:
    return replace(step, name="c")


@ENGINES
def test_a_branch_is_chosen_where_the_run_is(engine: Any) -> None:
    threads = []

    def choose(state: PipelineState) -> str:
        threads.append(threading.current_thread())
        return END

    pipeline = Pipeline(((note("a"),), (note("b"),))).with_branch("a", Branch(choose, (END, "b")))
    assert run(engine, pipeline, {"query": ">"})["query"] == ">a"
    assert threads == [threading.current_thread()], "no thread is changed for it"


@ENGINES
def test_two_side_by_side_are_one_line_and_overlap(engine: Any) -> None:
    both = []

    def meet(name: str, key: str) -> Step:
        async def wait(state: PipelineState, lent: Any) -> PipelineState:
            both.append(name)
            while len(both) < 2:
                await asyncio.sleep(0.001)
            return {key: name}  # type: ignore[misc]

        return Step(name, wait, timeout=5.0)

    pipeline = Pipeline(((note("a"),), (note("d"),)))
    wide = pipeline.with_step(meet("b", "facts"), meet("c", "summary"), after="a")
    end = run(engine, wide, {"query": ""})
    assert (end["query"], end["facts"], end["summary"]) == ("ad", "b", "c")


@ENGINES
def test_a_branch_is_one_line(engine: Any) -> None:
    pipeline = Pipeline(((note("a"),), (note("b"),), (note("c"),)))

    def way(state: PipelineState) -> str:
        return {"x": "c", "y": END}.get(state["query"][0], "b")

    forked = pipeline.with_branch("a", Branch(way, ("b", "c", END)))
    found = {first: run(engine, forked, {"query": first})["query"] for first in "xyz"}
    assert found == {"x": "xac", "y": "ya", "z": "zabc"}


@ENGINES
def test_a_branch_that_leads_in_a_circle_ends(engine: Any) -> None:
    pipeline = Pipeline(((note("a"),),)).with_branch("a", Branch(lambda state: "a", ("a",)))
    with pytest.raises(LimitError):
        run(engine, pipeline, {"query": ""})


@ENGINES
def test_a_branch_to_nowhere_is_an_error(engine: Any) -> None:
    pipeline = Pipeline(((note("a"),), (note("b"),)))
    lost = pipeline.with_branch("a", Branch(lambda state: "nowhere", ("b",)))
    with pytest.raises(UnknownNameError):
        run(engine, lost, {"query": ""})


@ENGINES
def test_a_failure_takes_the_fallback_and_is_told(engine: Any) -> None:
    async def fail(state: PipelineState, lent: Any) -> PipelineState:
        raise ProviderError("no {thing}", thing="luck")

    def instead(state: PipelineState, error: RAGError) -> PipelineState:
        return {"facts": str(error)}

    lent = Run()
    end = run(
        engine, Pipeline(((Step("a", fail, 5.0, instead),), (note("b"),))), {"query": ""}, lent
    )
    assert (end["facts"], end["query"]) == ("no luck", "b")
    assert [kind for kind, _ in lent.told] == ["notice", "step", "step"]
    assert lent.told[1][1]["outcome"] == "failed"
    with pytest.raises(ProviderError):
        run(engine, Pipeline(((Step("a", fail),),)), {"query": ""})


@ENGINES
def test_a_step_has_its_own_time(engine: Any) -> None:
    async def hang(state: PipelineState, lent: Any) -> PipelineState:
        await asyncio.sleep(30)
        return {}

    with pytest.raises(ProviderTimeoutError, match=r"0\.05"):
        run(engine, Pipeline(((Step("a", hang, 0.05),),)), {"query": ""})
    config = AgentConfig(search_timeout_s=0.05)
    with pytest.raises(ProviderTimeoutError):
        run(engine, Pipeline(((Step("a", hang, "search_timeout_s"),),)), {"query": ""}, Run(config))


@ENGINES
def test_one_that_fails_ends_the_other_beside_it(engine: Any) -> None:
    ended = []

    async def hang(state: PipelineState, lent: Any) -> PipelineState:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(True)
        return {}

    async def fail(state: PipelineState, lent: Any) -> PipelineState:
        await asyncio.sleep(0.01)
        raise ProviderError("no")

    with pytest.raises(ProviderError):
        run(engine, Pipeline(((Step("a", hang), Step("b", fail)),)), {"query": ""})
    assert ended == [True]


@ENGINES
def test_a_step_that_is_off_changes_nothing(engine: Any) -> None:
    off = Step("a", note("a").run, is_on=lambda state: False)
    assert run(engine, Pipeline(((off,), (note("b"),))), {"query": ""})["query"] == "b"


def test_names_are_checked_when_a_pipeline_grows() -> None:
    pipeline = Pipeline(((note("a"),),))
    with pytest.raises(ConfigurationError):
        pipeline.with_step(note("a"))
    with pytest.raises(UnknownNameError, match="Known: a"):
        pipeline.with_step(note("b"), after="x")
    with pytest.raises(UnknownNameError):
        pipeline.with_branch("a", Branch(lambda state: "b", ("b",)))


def test_the_rag_pipeline_is_drawn_as_it_runs() -> None:
    drawn = pipeline_json(rag_pipeline())
    assert [node["name"] for node in drawn["nodes"]] == [
        "load_history",
        "route",
        "rewrite",
        "recall",
        "page",
        "search",
        "rerank",
        "generate",
        "converse",
    ]
    for name in ("generate", "converse"):
        assert {"source": "route", "target": name, "kind": "conditional"} in drawn["edges"]
    assert {"source": "generate", "target": "END", "kind": "conditional"} in drawn["edges"]
    assert {"source": "converse", "target": "END", "kind": "always"} in drawn["edges"]
    for name in ("load_history", "route"):
        assert {"source": "START", "target": name, "kind": "conditional"} in drawn["edges"]
    assert {"source": "route", "target": "search", "kind": "conditional"} in drawn["edges"]
    for name in ("rewrite", "recall", "page"):
        assert {"source": "route", "target": name, "kind": "conditional"} in drawn["edges"]
        assert {"source": name, "target": "search", "kind": "always"} in drawn["edges"]
    text = pipeline_mermaid(rag_pipeline())
    compiled: Any = GraphEngine(rag_pipeline())._compiled
    for edge in compiled.get_graph().edges:
        source = edge.source.replace("__start__", "START")
        target = edge.target.replace("__end__", "END")
        arrow = "-.->" if edge.conditional else "-->"
        # Steps that run side by side are one node of the engine.
        for one, other in product(source.split(" + "), target.split(" + ")):
            assert f"    {one} {arrow} {other}\n" in text


def test_the_setting_chooses_the_engine(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_for(rag_pipeline()).name == "langgraph"
    settings.AGENTS = {**settings.AGENTS, "ENGINE": "plain"}
    assert engine_for(rag_pipeline()).name == "plain"
    with pytest.raises(UnknownNameError, match="langgraph, plain"):
        engine_for(rag_pipeline(), "other")
    monkeypatch.setitem(sys.modules, "agents.chat.engine.langgraph", None)
    assert engine_for(rag_pipeline(), "langgraph").name == "plain"


@pytest.mark.parametrize(
    "fault", [AttributeError, KeyError, NameError, RuntimeError, SyntaxError, TypeError, ValueError]
)
def test_an_engine_that_cannot_compile_is_replaced_and_a_failing_step_is_not(
    fault: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(state: PipelineState, lent: Any) -> PipelineState:
        raise fault("the step")

    pipeline = Pipeline(((Step("a", fails),),))
    whole = engine_for(pipeline, "langgraph")
    assert whole.name == "langgraph"
    with pytest.raises(fault, match="the step"):
        asyncio.run(whole.run({}, Run()))  # type: ignore[arg-type]

    def unfit(pipeline: Pipeline) -> Any:
        raise fault("an argument that nobody knows")

    monkeypatch.setattr(rag, "_graph", unfit)
    engine = engine_for(Pipeline(((note("a"),), (note("b"),))), "langgraph")
    assert engine.name == "plain"
    assert asyncio.run(engine.run({"query": "x"}, Run()))["query"] == "xab"  # type: ignore[arg-type]
    assert "an argument that nobody knows" in caplog.text


@pytest.mark.parametrize("fault", [OSError, RuntimeError, SyntaxError])
def test_an_engine_that_breaks_while_it_is_loaded_is_replaced(
    fault: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "agents.chat.engine.langgraph":
                raise fault("its library is half installed")

    monkeypatch.delitem(sys.modules, "agents.chat.engine.langgraph")
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    assert engine_for(rag_pipeline(), "langgraph").name == "plain"
    assert "half installed" in caplog.text


def test_the_config_has_the_defaults_of_its_description() -> None:
    values = AgentConfig().as_dict()
    assert {
        name: values[name]
        for name in (
            "default_top_k",
            "min_confidence_score",
            "search_mode",
            "enable_source_citation",
            "enable_query_rewrite",
            "enable_rerank",
            "rerank_top_k",
            "vector_threshold",
            "bm25_threshold",
        )
    } == {
        "default_top_k": 5,
        "min_confidence_score": 0.5,
        "search_mode": "hybrid",
        "enable_source_citation": True,
        "enable_query_rewrite": False,
        "enable_rerank": False,
        "rerank_top_k": 5,
        "vector_threshold": 0.7,
        "bm25_threshold": 0.3,
    }
    for wrong in (
        {"default_top_k": 0},
        {"default_top_k": "5"},
        {"nonsense": 1},
        {"search_mode": "x"},
    ):
        with pytest.raises(InvalidInputError):
            AgentConfig.from_dict(wrong)


@pytest.mark.parametrize(
    ("wants", "can", "top_k"), [(True, True, 20), (True, False, 5), (False, True, 5)]
)
def test_more_is_found_only_for_somebody_who_ranks_again(
    wants: bool, can: bool, top_k: int
) -> None:
    @dataclass
    class Searching(Run):
        can_rank: bool = can
        asked: list[int] = field(default_factory=list)

        async def search(self, query: str, top_k: int) -> FoundHits:
            self.asked.append(top_k)
            return FoundHits((), 0.0, {})

    lent = Searching()
    asyncio.run(search_step({"query": "pump", "enable_rerank": wants}, lent))  # type: ignore[arg-type]
    assert lent.asked == [top_k]
