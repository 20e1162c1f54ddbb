"""Contract of a type of node: what the engine, the checks, the editor and the guide rely on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents.core.nodes import NODE_TYPES
from agents.core.state import REDUCERS, to_storable
from agents.flows.definition.node_configs import NodeOptions
from agents.flows.definition.state import initial_state
from tests.unit.flows.test_flow_state import FLOW
from tests.unit.node_world import NotedRun


def visit(kind: str, run: NotedRun, config: dict[str, Any], **variables: Any) -> Any:
    """Return what a node adds to a state with these variables."""
    state = {**initial_state(FLOW, "Leave?"), "edges_var": variables}
    node = NODE_TYPES[kind]
    return asyncio.run(node().run(state, node.Config.model_validate(config), run))


class NodeContract:
    """Inherited by the tests of a node: its ``kind``, a ``config``, and a run that serves it."""

    kind = ""
    config: dict[str, Any] = {}

    def lent(self) -> NotedRun:
        return NotedRun()

    def test_its_update_is_json_of_known_fields_and_sets_what_it_says(self) -> None:
        update = visit(self.kind, self.lent(), self.config)
        assert update.keys() <= REDUCERS.keys()
        assert to_storable(update) == update
        options = NODE_TYPES[self.kind].Config.model_validate(self.config)
        assert isinstance(options, NodeOptions)
        assert set(update.get("edges_var") or {}) <= options.sets()

    def test_its_options_have_a_schema_and_refuse_what_they_do_not_know(self) -> None:
        schema = NODE_TYPES[self.kind].Config.model_json_schema()
        assert schema["type"] == "object" and schema["additionalProperties"] is False
        assert set(self.config) <= set(schema["properties"]) and schema["description"]
        json.dumps(schema)

    def test_what_it_fills_is_empty_where_nothing_is_set(self) -> None:
        run = self.lent()
        visit(self.kind, run, self.config)
        told = str([run.texts, run.fetched, run.flows, run.events])
        assert "{unset}" not in told
