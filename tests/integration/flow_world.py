"""What flow tests stand on: a store, a small database, a tool, a script, and the flow of the clinic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection

from agents import models
from agents.flows.runs.control import prepare_flow
from agents.flows.runs.start import RunRequest, arun_flow
from agents.flows.runs.worker import run_to_end
from agents.flows.versions.versions import import_flow
from rag.core.access import Scope
from rag.core.plugins import PLUGINS
from rag.core.tools import ToolCall
from rag.services.access.api_keys import scope_of
from tests.edges.admin_client import use_words_embedder
from tests.factories import DIM, FileFactory, StoreFactory, UserFactory, publish

FLOWS = Path(__file__).resolve().parents[2] / "examples" / "flows"
MEDICAL = FLOWS / "medical_agent_v4"
PATIENTS = """
CREATE TABLE IF NOT EXISTS patients (user_id text, diagnosis text, medications jsonb, last_visit date);
INSERT INTO patients VALUES ('{me}', '高血压', '["氨氯地平", "缬沙坦"]', '2024-01-15'),
                            ('{me}', '胃炎', '[]', '2023-05-02'),
                            ('somebody else', '糖尿病', '["二甲双胍"]', '2024-02-01')
"""


run_flow = async_to_sync(arun_flow)


def resume_flow(*, run: models.FlowRun, **how: Any) -> models.FlowRun:
    """Decide where a run waits, or go on with one that failed, up to its end."""
    return async_to_sync(run_to_end)(run=prepare_flow(run=run, **how))


class QueryBloodPressure:
    """A tool as a plugin brings it; answers only for those who are signed in."""

    name = "query_blood_pressure"
    label = "Blood pressure"
    description = "Returns the patient's blood pressure of the last days."

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        days: int = 7

    def run(self, call: ToolCall) -> dict[str, Any]:
        return {"days": call.arguments.days, "systolic": [150, 148], "user": call.scope.user_id}


@dataclass(frozen=True, slots=True)
class Clinic:
    """The flow of the clinic with everything that it asks, and whose it is."""

    flow: models.Flow
    scope: Scope

    def ask(self, message: str, **more: Any) -> models.FlowRun:
        request = RunRequest(
            flow=self.flow, scope=self.scope, message=message, model=SCRIPT, **more
        )
        return run_flow(request=request)


SCRIPT = f"scripted:{MEDICAL / 'answers.yaml'}"


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> Iterator[None]:
    """The words embedder, the default database for sources, doubao as an endpoint, the tool."""
    use_words_embedder(monkeypatch, settings)
    # Its cosines grow with shared words: of texts that share some it is 0.2 and more.
    scale = [[0.0, 0.0], [0.2, 0.7], [0.7, 1.0]]
    settings.RAG = {
        **settings.RAG,
        "LIKENESS": {f"words:{DIM}": scale},
        "SOURCE_DATABASES": ("default",),
        "CHAT_ENDPOINTS": {"doubao": {"base_url": "http://127.0.0.1:9/v1", "api_key": "k"}},
    }
    found = PLUGINS._found["tool"]
    monkeypatch.setitem(found, QueryBloodPressure.name, QueryBloodPressure)
    yield


@pytest.fixture
def clinic(house: None) -> Iterator[Clinic]:
    """The seed's flow, active, with a store of guidelines and three rows of patients."""
    user = UserFactory()
    store = StoreFactory(name="medical_docs", owner=user)
    publish(
        FileFactory(store=store, name="高血压指南.pdf"),
        "高血压 怎么 控制：收缩压 应低于 140，低盐饮食",
        "头痛 的 原因 有 多种",
        "药物 剂量 的 说法 相互矛盾",
        "说不清 的 情况",
    )
    with connection.cursor() as cursor:
        cursor.execute(PATIENTS.format(me=user.pk))
    scope = scope_of(user)
    version = import_flow(path=MEDICAL, scope=scope)
    yield Clinic(version.flow, scope)
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE patients")
