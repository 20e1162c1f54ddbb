"""Nodes without a model: template, assignment, answer, HTTP request, sub-flow."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agents.core.nodes import NODE_TYPES, FlowOutcome, Waiting
from rag.core.errors import InvalidInputError
from tests.unit.flows.nodes.node_contract import NodeContract, visit
from tests.unit.node_world import NotedRun

URL = "https://shop.example/orders/{order}"


class TestTemplate(NodeContract):
    kind = "template"
    config = {"template": "{user_query} {unset}!", "result_key": "letter"}

    def test_it_fills_a_text(self) -> None:
        update = visit(self.kind, NotedRun(), {"template": '{n} {list} {"a": 1}'}, n=3, list=["x"])
        assert update == {"edges_var": {"text": '3 ["x"] {"a": 1}'}}


class TestAssign(NodeContract):
    kind = "assign"
    config = {"set": {"a": "{unset}", "b": {"c": ["{user_query}"]}}, "append": {"seen": 1}}

    def test_a_variable_keeps_its_type_and_a_list_grows(self) -> None:
        config = {"set": {"n": "{m}", "t": "is {m}"}, "append": {"seen": "{m}"}, "clear": ["old"]}
        update = visit(self.kind, NotedRun(), config, m=5, seen=[1], old="x")
        assert update["edges_var"] == {"n": 5, "t": "is 5", "seen": [1, 5], "old": None}

    @pytest.mark.parametrize(
        ("config", "says"),
        [
            ({"set": {"token_id": "x"}}, "says who acts"),
            ({"set": {"a": 1}, "clear": ["a"]}, "there twice"),
            ({}, "needs set, append or clear"),
        ],
    )
    def test_what_it_may_not_set(self, config: dict[str, Any], says: str) -> None:
        with pytest.raises(ValidationError, match=says):
            NODE_TYPES["assign"].Config.model_validate(config)

    def test_only_lists_grow(self) -> None:
        with pytest.raises(InvalidInputError, match="no list"):
            visit(self.kind, NotedRun(), {"append": {"seen": 1}}, seen="text")


class TestAnswer(NodeContract):
    kind = "answer"
    config = {"text": "Hello {unset}."}

    def test_people_are_told_it_and_it_is_the_turn(self) -> None:
        run = NotedRun()
        update = visit(self.kind, run, {"text": "It is {n}."}, n=3)
        assert update["flow_msgs"] == [{"role": "assistant", "content": "It is 3."}]
        assert run.events == [("token", {"text": "It is 3."})]


class TestHttpRequest(NodeContract):
    kind = "http_request"
    config = {"url": "https://shop.example/orders", "params": {"q": "{unset}"}}

    def lent(self) -> NotedRun:
        return NotedRun(sources={"node": {"state": "sent"}})

    def test_values_stay_where_the_flow_puts_them(self) -> None:
        run = self.lent()
        config = {
            "url": URL + "?by={by}",
            "method": "POST",
            "body": {"n": "{n}", "note": "{unset}"},
            "secret": "shop",
        }
        update = visit(self.kind, run, config, order="a/../b", by="x&y", n=3)
        assert update["edges_var"]["response"]["body"] == {"state": "sent"}
        (call,) = run.fetched
        assert call.request.url == "https://shop.example/orders/a%2F..%2Fb?by=x%26y"
        assert call.request.json == {"n": 3, "note": None} and call.secret == "shop"

    @pytest.mark.parametrize("order", ["..", "", None])
    def test_no_value_climbs_out_of_the_path(self, order: Any) -> None:
        with pytest.raises(InvalidInputError, match="cannot stand in the path"):
            visit(self.kind, self.lent(), {"url": URL}, order=order)

    @pytest.mark.parametrize(
        ("config", "says"),
        [
            ({"url": "https://{host}/x"}, "fixed host"),
            ({"url": "file:///etc/passwd"}, "fixed host"),
            ({"url": URL, "method": "POST", "retries": 1}, "may have been done"),
        ],
    )
    def test_what_is_refused(self, config: dict[str, Any], says: str) -> None:
        with pytest.raises(ValidationError, match=says):
            NODE_TYPES["http_request"].Config.model_validate(config)
        assert NODE_TYPES["http_request"].Config.model_validate({"url": URL}).hosts() == {  # type: ignore[attr-defined]
            "shop.example"
        }


class TestSubflow(NodeContract):
    kind = "flow"
    config = {"flow": "refunds", "inputs": {"order": "{unset}"}, "outputs": {"paid": "amount"}}

    def lent(self) -> NotedRun:
        return NotedRun(sources={"refunds": FlowOutcome("Paid.", {"amount": 5, "secret": 1})})

    def test_it_gives_inputs_and_takes_what_it_names(self) -> None:
        run = self.lent()
        config = {**self.config, "message": "about {n}", "inputs": {"order": "{n}"}}
        update = visit(self.kind, run, config, n=7)
        assert run.flows == [("refunds", "about 7", {"order": 7})]
        assert update["edges_var"] == {"answer": "Paid.", "paid": 5}
        assert update["flow_msgs"][0]["content"] == "Paid."
        assert visit(self.kind, NotedRun(), self.config) == Waiting()
