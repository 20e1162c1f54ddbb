"""Nodes that ask a model for values: parameter extraction, classifier."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from agents.core.nodes import NODE_TYPES
from rag.core.errors import ProviderError
from tests.unit.flows.nodes.node_contract import NodeContract, visit
from tests.unit.node_world import NotedRun

SCHEMA = {
    "type": "object",
    "required": ["order"],
    "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
}
CLASSES = {"refund": "wants money back", "other": "anything else"}


class TestExtract(NodeContract):
    kind = "extract"
    config = {"output_schema": SCHEMA, "instruction": "{unset}"}

    def lent(self) -> NotedRun:
        return NotedRun('{"order": "17"}')

    def test_values_become_variables_and_what_is_not_said_is_unset(self) -> None:
        run = NotedRun('Here: {"order": "17", "invented": 1}')
        update = visit(self.kind, run, {"output_schema": SCHEMA, "text": "mail: {mail}"}, mail="x")
        assert update["edges_var"] == {"order": "17", "amount": None, "parse_error": False}
        (system, said) = run.texts[0]
        assert said == ("user", "mail: x") and '"amount"' in system[1]

    def test_a_wrong_answer_is_repaired_once_and_then_told(self) -> None:
        run = NotedRun('{"amount": "five"}', '{"order": "17", "amount": 5}')
        update = visit(self.kind, run, self.config)
        assert update["edges_var"] == {"order": "17", "amount": 5, "parse_error": False}
        assert "missing" in run.texts[1][-1][1]
        update = visit(self.kind, NotedRun("no", "no"), self.config)
        assert update["edges_var"] == {"order": None, "amount": None, "parse_error": True}

    @pytest.mark.parametrize(
        "schema", [{}, {"properties": {}}, {"properties": {"token_id": {"type": "string"}}}]
    )
    def test_a_schema_needs_properties_that_may_be_set(self, schema: dict[str, Any]) -> None:
        with pytest.raises(ValidationError, match=r"needs 1 to|says who acts"):
            NODE_TYPES["extract"].Config.model_validate({"output_schema": schema})


class TestClassify(NodeContract):
    kind = "classify"
    config = {"classes": CLASSES, "text": "{unset}{user_query}"}

    def lent(self) -> NotedRun:
        return NotedRun('{"class": "refund"}')

    def test_the_class_is_a_variable(self) -> None:
        run = self.lent()
        assert visit(self.kind, run, self.config)["edges_var"] == {"category": "refund"}
        assert "- refund: wants money back" in run.texts[0][0][1]
        assert run.requests[0][1].options["response_format"]["json_schema"]["schema"]["required"]

    def test_what_is_none_of_them_is_the_default_or_an_error(self) -> None:
        wrong = [json.dumps({"class": "sales"})] * 2
        told = visit(self.kind, NotedRun(*wrong), {**self.config, "default": "other"})
        assert told["edges_var"] == {"category": "other"}
        with pytest.raises(ProviderError, match="none of the classes"):
            visit(self.kind, NotedRun(*wrong), self.config)
        with pytest.raises(ValidationError, match="none of refund, other"):
            NODE_TYPES["classify"].Config.model_validate({**self.config, "default": "x"})
