"""The iteration node: in order, so many at once, bounded; failures, pauses, what was done before."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from agents.core.nodes import NODE_TYPES, Pause, Waiting
from rag.core.errors import ConfigurationError, InvalidInputError, LimitError, ProviderError
from tests.unit.flows.nodes.node_contract import NodeContract, visit
from tests.unit.flows.test_flow_graph import Log
from tests.unit.node_world import NotedRun


class DoubleConfig(BaseModel):
    pass


class DoubleNode:
    """Doubles its item; an item may be an error or a pause."""

    name, label, Config = "double", "Double", DoubleConfig
    at_once, most = 0, 0

    async def run(self, state: Mapping[str, Any], config: Any, run: Any) -> Any:
        DoubleNode.at_once += 1
        DoubleNode.most = max(DoubleNode.most, DoubleNode.at_once)
        await asyncio.sleep(0.001)
        DoubleNode.at_once -= 1
        item = state["edges_var"]["item"]
        if item == "down":
            raise ProviderError("down")
        if item == "fault":
            raise ConfigurationError("fault")
        if item == "ask":
            return Pause("which?", ("yes",))
        return {"edges_var": {"twice": item * 2, "at": state["edges_var"]["index"]}}


@pytest.fixture(autouse=True)
def _double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NODE_TYPES, "double", DoubleNode)
    DoubleNode.most = 0


def lent(past: dict[Any, Any] | None = None) -> NotedRun:
    run = NotedRun()
    run.inner = Log(past)
    return run


def config(**more: Any) -> dict[str, Any]:
    return {"items": "{numbers}", "node": {"type": "double"}, "output": "twice", **more}


class TestIteration(NodeContract):
    kind = "iteration"
    config = {"items": ["a", "b"], "node": {"type": "template", "config": {"template": "{item}"}}}

    def lent(self) -> NotedRun:
        return lent()


def test_results_are_in_order_and_so_many_run_at_once() -> None:
    update = visit("iteration", lent(), config(parallel=3), numbers=list(range(9)))
    assert update == {"edges_var": {"results": [n * 2 for n in range(9)], "n_failed": 0}}
    assert DoubleNode.most == 3
    whole = visit("iteration", lent(), config(output=""), numbers=[4])
    assert whole["edges_var"]["results"] == [{"twice": 8, "at": 0}]


def test_what_was_done_before_is_not_done_again() -> None:
    run = lent({("1", 1): {"edges_var": {"twice": "kept"}}})
    update = visit("iteration", run, config(), numbers=[1, 2])
    assert update["edges_var"]["results"] == ["kept", 4] and run.inner.ran == ["2"]


def test_one_that_fails_ends_it_or_is_counted() -> None:
    with pytest.raises(ProviderError):
        visit("iteration", lent(), config(), numbers=[1, "down", 3])
    update = visit("iteration", lent(), config(on_error="continue"), numbers=[1, "down", 3])
    assert update["edges_var"] == {"results": [2, None, 6], "n_failed": 1}
    with pytest.raises(ConfigurationError):
        visit("iteration", lent(), config(on_error="continue"), numbers=["fault"])


def test_a_review_of_an_item_lets_all_wait() -> None:
    run = lent()
    assert visit("iteration", run, config(), numbers=[1, "ask"]) == Waiting()
    assert [pause.message for pause in run.inner.pauses] == ["which?"]


@pytest.mark.parametrize(
    ("numbers", "error", "says"),
    [
        (list(range(1_000_000)), LimitError, "1000000 items"),
        (list(range(101)), LimitError, "At most 100"),
        ("text", InvalidInputError, "no list"),
    ],
)
def test_too_many_items_and_what_is_no_list_are_refused(
    numbers: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        visit("iteration", lent(), config(), numbers=numbers)
    assert visit("iteration", lent(), config())["edges_var"]["results"] == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"max_items": 1_000_000}, "less than or equal to 1000"),
        ({"parallel": 500}, "less than or equal to 20"),
        ({"node": {"type": "nothing"}}, "Unknown node type"),
        ({"node": {"type": "template", "config": {"tmplate": "x"}}}, r"node\.config\.template"),
        ({"node": {"type": "iteration", "config": config()}}, "an iteration in an iteration"),
    ],
)
def test_what_its_options_refuse(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        NODE_TYPES["iteration"].Config.model_validate(config(**more))
