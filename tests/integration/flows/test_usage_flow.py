"""Models that a flow asks are on the flow's account and on the budget of the key that started it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents.flows.runs.control import rerun_flow
from agents.runtime.scopes import run_scope
from rag import models
from rag.services.access.api_keys import create_key
from rag.services.usage.budgets import save_budget
from tests.integration.flow_world import SCRIPT, Clinic
from tests.integration.flow_world import clinic as clinic
from tests.integration.flow_world import house as house

pytestmark = pytest.mark.django_db(transaction=True)


def test_each_node_that_asks_a_model_is_a_row_of_the_run(clinic: Clinic, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "PRICES": {SCRIPT: {"input": 1, "output": 1}}}
    run = clinic.ask("高血压怎么控制")
    found = list(models.UsageRecord.objects.filter(run=str(run.key)))
    assert len(found) == run.events.filter(kind="model_answer").count() > 1
    assert {(one.kind, one.agent, one.user_id) for one in found} == {
        ("flow", clinic.flow.name, clinic.scope.user_id)
    }
    assert sum(one.input_tokens or 0 for one in found) == run.input_tokens
    assert all(one.cost for one in found)


def test_a_flow_stops_where_its_keys_budget_is_used_up(clinic: Clinic) -> None:
    user = clinic.flow.owner
    assert user is not None
    key, _ = create_key(user=user, name="app")
    save_budget(budget=models.Budget(key=key, max_tokens=1))
    asked = replace(clinic, scope=replace(clinic.scope, key_id=key.pk))
    run = asked.ask("高血压怎么控制")
    # The first call is allowed, for nothing was used before it.
    assert models.UsageRecord.objects.filter(key=key).count() == 1
    assert run.status == "error" and "budget of 1 tokens a month" in run.error["message"].format(
        **run.error["params"]
    )
    # Another process that goes on with it knows the key as well.
    assert run_scope(run=run).key_id == key.pk


def test_who_replays_a_run_pays_for_it(clinic: Clinic) -> None:
    user = clinic.flow.owner
    assert user is not None
    key, _ = create_key(user=user, name="app")
    run = clinic.ask("高血压怎么控制")
    first = run.events.filter(kind="node_started").order_by("seq").values_list("node", flat=True)
    again = rerun_flow(run=run, scope=replace(clinic.scope, key_id=key.pk), from_node=first[0])
    assert again.key_id == run_scope(run=again).key_id == key.pk
    assert rerun_flow(run=run, scope=clinic.scope, from_node=first[0]).key_id is None
