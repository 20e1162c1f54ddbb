"""The flow of the description, word for word: all its routes, on real sources and a script."""

from __future__ import annotations

import pytest

from agents import models
from agents.flows.definition.archive import FlowFiles, read_flow_folder
from agents.flows.versions.dry_run import run_cases
from agents.flows.versions.versions import check_flow_files
from rag.core.access import Scope
from rag.core.plugins import PLUGINS
from rag.services.access.api_keys import scope_of
from tests.factories import UserFactory
from tests.integration.flow_world import MEDICAL, Clinic
from tests.integration.flow_world import clinic as clinic
from tests.integration.flow_world import house as house

pytestmark = pytest.mark.django_db(transaction=True)


def route(run: models.FlowRun) -> list[str]:
    return list(
        run.events.filter(kind="node_started").order_by("seq").values_list("node", flat=True)
    )


def test_enough_data_ends_in_a_report(clinic: Clinic) -> None:
    run = clinic.ask("高血压怎么控制")
    assert (run.status, run.error) == ("done", None)
    assert route(run) == [
        "intent_recognition",
        "rag_retrieval",
        "model_analysis",
        "branch_sufficient",
    ]
    assert run.state["edges_var"] == {
        "intent": "qa",
        "confidence": 0.92,
        "analysis_result": "sufficient",
        "data_quality": "high",
        "risk_level": "medium",
        "parse_error": False,
    }
    assert run.state["flow_msgs"][-1] == {
        "role": "assistant",
        "content": "报告：每日监测血压，低盐饮食。",
    }
    assert (run.state["intent"], run.state["confidence"]) == ("qa", 0.92)
    assert (run.n_steps, run.ended_at is not None) == (4, True)
    assert run.input_tokens > 0 and run.output_tokens > 0


def test_the_results_have_the_shape_of_the_description(clinic: Clinic) -> None:
    found = clinic.ask("高血压怎么控制").state["rag_results"]
    assert found["patient_records"] == [
        {"diagnosis": "高血压", "medications": ["氨氯地平", "缬沙坦"], "last_visit": "2024-01-15"},
        {"diagnosis": "胃炎", "medications": [], "last_visit": "2023-05-02"},
    ]
    (chunk,) = found["medical_knowledge_base"]
    assert chunk["content"].startswith("高血压 怎么 控制")
    assert (chunk["metadata"]["source"], chunk["metadata"]["page"]) == ("高血压指南.pdf", 1)
    assert chunk["score"] > 0


def test_the_tool_is_called_for_the_run_s_own_user(clinic: Clinic) -> None:
    run = clinic.ask("高血压怎么控制")
    (called,) = run.events.filter(kind="tool")
    (passage,) = called.data.pop("passages")
    assert passage["content"] == f"days: 7\nsystolic: [150, 148]\nuser: {clinic.scope.user_id}"
    assert called.data.pop("duration_ms") >= 0
    assert called.data == {
        "tool": "query_blood_pressure",
        "arguments": {"days": 7},
        "answer": {"days": 7, "systolic": [150, 148], "user": clinic.scope.user_id},
    }


@pytest.mark.parametrize(
    ("message", "branch", "answer"),
    [
        ("头痛 的 原因", "branch_insufficient", "请告诉我头痛的时间和程度。"),
        (
            "药物 剂量 的 说法 相互矛盾",
            "branch_need_verification",
            "两份资料对剂量的说法不同，请医生核实。",
        ),
    ],
)
def test_the_other_routes(clinic: Clinic, message: str, branch: str, answer: str) -> None:
    run = clinic.ask(message)
    assert run.error is None
    assert route(run)[-1] == branch
    assert run.state["flow_msgs"][-1]["content"] == answer


def test_without_an_edge_the_run_says_which_values_there_were(clinic: Clinic) -> None:
    run = clinic.ask("说不清 的 情况")
    assert run.status == "error"
    assert run.error["params"]["node"] == "model_analysis"
    assert "analysis_result = 'need_verification'" in run.error["params"]["values"]
    assert "data_quality = 'high'" in run.error["params"]["values"]
    last = run.events.order_by("seq").last()
    assert (last.kind, last.data["error"]) == ("error", run.error)


def test_another_s_records_are_read_by_nobody(clinic: Clinic) -> None:
    clinic.flow.is_public = True
    clinic.flow.save()
    stranger = Clinic(clinic.flow, scope_of(UserFactory()))
    run = clinic.ask("高血压怎么控制", given={"token_id": "somebody else"})
    assert [row["diagnosis"] for row in run.state["rag_results"]["patient_records"]] == ["糖尿病"]
    with pytest.raises(Exception, match="Only editors"):
        stranger.ask("高血压怎么控制", given={"token_id": "somebody else"})


def test_the_flow_as_written_has_no_errors_here(clinic: Clinic) -> None:
    found = check_flow_files(files=read_flow_folder(MEDICAL), scope=clinic.scope)
    assert [one.text for one in found if one.level == "error"] == []
    assert {one.level for one in found} == {"warning"}


def test_its_check_names_what_an_installation_lacks(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(PLUGINS._found["tool"], "query_blood_pressure")
    files = read_flow_folder(MEDICAL)
    other = FlowFiles(
        files.yaml.replace("collection: medical_docs", "collection: gone").replace(
            "provider: doubao", "provider: nobody"
        ),
        files.prompts,
    )
    texts = [
        one.text
        for one in check_flow_files(files=other, scope=Scope.operator())
        if one.level == "error"
    ]
    assert any("Unknown tool “query_blood_pressure”" in text for text in texts)
    assert any("gone" in text for text in texts)
    assert any(
        "Unknown chat provider “nobody”. Known: doubao, extractive" in text for text in texts
    )


def test_its_cases_hold_without_models_and_sources() -> None:
    results = run_cases(path=MEDICAL)
    assert {result.name: result.faults for result in results} == dict.fromkeys(
        [
            "enough data",
            "not enough data",
            "sources that contradict each other",
            "another intent has no edge",
        ],
        (),
    )
