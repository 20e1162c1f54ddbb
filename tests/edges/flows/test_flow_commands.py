"""flow_check, flow_test, flow_import, flow_export and flow_run as one types them."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from agents import models
from tests.factories import UserFactory
from tests.integration.flow_world import MEDICAL
from tests.integration.flow_world import house as house

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("house")]
SMALL = """\
name: small
nodes:
  - {name: a, type: agent, config: {prompt: a.md}}
  - {name: review, type: human_review}
edges: [{from: a, to: review, condition: 'risk == "high"'}, {from: a, to: END, condition: default}, {from: review, to: END}]
entry_node: a
"""
SCRIPT = """
answers:
  - {contains: danger, answer: {risk: high}}
  - {contains: broken, error: it is down}
  - {contains: Judge, answer: {risk: low, response_content: all is well}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "flow.yaml").write_text(SMALL, encoding="utf-8")
    (folder / "a.md").write_text(
        'Judge as JSON {"risk": "high|low"}: {user_query}', encoding="utf-8"
    )
    (folder / "answers.yaml").write_text(SCRIPT, encoding="utf-8")
    return folder


def run(command: str, *arguments: Any) -> str:
    said = io.StringIO()
    call_command(command, *map(str, arguments), stdout=said, stderr=said)
    return said.getvalue()


def told(command: str, *arguments: Any) -> tuple[str, str]:
    """Return what a failing command says, and its error."""
    said = io.StringIO()
    with pytest.raises(CommandError) as raised:
        call_command(command, *map(str, arguments), stdout=said, stderr=said)
    return said.getvalue(), str(raised.value)


def test_a_sound_flow_passes_its_check(folder: Path) -> None:
    assert run("flow_check", folder) == "The flow is sound.\n"
    assert json.loads(run("flow_check", folder / "flow.yaml", "--json")) == {
        "is_sound": True,
        "message": "",
        "findings": [],
    }


def test_a_faulty_flow_fails_with_every_place(folder: Path) -> None:
    path = folder / "flow.yaml"
    path.write_text(
        SMALL.replace("a.md", "b.md").replace("to: review", "to: gone"), encoding="utf-8"
    )
    said, error = told("flow_check", folder)
    assert error == "Errors: 2."
    assert f"{path}:3:37: error: there is no prompt “b.md”; known: a.md" in said
    assert f"{path}:5:19: error: there is no node “gone”" in said
    said, _ = told("flow_check", path, "--json")
    found = json.loads(said)
    assert (found["is_sound"], [one["line"] for one in found["findings"]]) == (False, [3, 5])


def test_what_is_no_flow_fails_too(folder: Path, tmp_path: Path) -> None:
    (folder / "flow.yaml").write_text("name: [", encoding="utf-8")
    said, error = told("flow_check", folder, "--json")
    assert "line 1, column" in error
    assert json.loads(said)["message"] == error
    assert "There is no flow at" in told("flow_check", tmp_path / "none")[1]


def test_the_cases_of_the_description_hold() -> None:
    said = run("flow_test", MEDICAL)
    assert (
        "ok  enough data: intent_recognition → rag_retrieval → model_analysis → branch_sufficient"
        in said
    )
    assert said.count("ok  ") == 4
    assert [one["faults"] for one in json.loads(run("flow_test", MEDICAL, "--json"))] == [[]] * 4


def test_a_case_that_fails_says_what_came_instead(tmp_path: Path) -> None:
    folder = tmp_path / "flow"
    shutil.copytree(MEDICAL, folder)
    cases = (folder / "cases.yaml").read_text(encoding="utf-8")
    (folder / "cases.yaml").write_text(
        cases.replace("branch_insufficient]", "branch_sufficient]")
        .replace("risk_level: medium", "risk_level: low")
        .replace("data_quality: low", "nothing: 1"),
        encoding="utf-8",
    )
    said, error = told("flow_test", folder)
    assert error == "3 of 4 cases failed."
    assert (
        "route: intent_recognition → rag_retrieval → model_analysis → branch_insufficient, not"
        in said
    )
    assert "risk_level: 'medium', not 'low'" in said
    assert "nothing: None, not 1" in said
    assert "There are no cases at" in told("flow_test", tmp_path)[1]


def test_a_flow_comes_in_runs_and_goes_out(folder: Path, tmp_path: Path) -> None:
    assert run("flow_import", folder, "--note", "first") == "small 1\n"
    script = f"scripted:{folder / 'answers.yaml'}"
    assert run("flow_run", "small", "how are you", "--model", script) == "a\nall is well\n"
    paused = run("flow_run", "small", "danger", "--model", script)
    assert json.loads(paused.splitlines()[-1])[0]["node"] == "review"
    lines = run("flow_run", "small", "hello", "--model", script, "--events").splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["event"], events[-1]["event"]) == ("run_started", "done")
    out = tmp_path / "out"
    assert len(run("flow_export", "small", out).splitlines()) == 2
    assert (out / "flow.yaml").read_text(encoding="utf-8") == SMALL
    assert models.FlowRun.objects.filter(is_by_operator=True).count() == 3


def test_a_flow_that_fails_fails_the_command(folder: Path) -> None:
    run("flow_import", folder)
    script = f"scripted:{folder / 'answers.yaml'}"
    assert (
        "the model fails: it is down" in told("flow_run", "small", "broken", "--model", script)[1]
    )
    assert "There is no flow “gone”" in told("flow_run", "gone", "x")[1]
    assert "no version 7" in told("flow_run", "small", "x", "--number", "7")[1]
    assert "--given is no JSON" in told("flow_run", "small", "x", "--given", "{")[1]
    assert "no JSON object" in told("flow_run", "small", "x", "--given", "[]")[1]


def test_a_run_can_have_a_user_s_rights(folder: Path) -> None:
    run("flow_import", folder)
    user = UserFactory(username="reader")
    assert "There is no flow “small”" in told("flow_run", "small", "x", "--user", "reader")[1]
    assert "There is no user “nobody”" in told("flow_run", "small", "x", "--user", "nobody")[1]
    models.Flow.objects.update(is_public=True)
    run("flow_run", "small", "x", "--user", "reader")
    assert models.FlowRun.objects.get().user == user


def test_an_import_may_wait_with_its_activation(folder: Path) -> None:
    run("flow_import", folder, "--no-activate")
    assert "no active version" in told("flow_export", "small", folder / "out")[1]
    run("flow_export", "small", folder / "out", "--number", "1")
    (folder / "flow.yaml").write_text(SMALL.replace("to: review", "to: gone"), encoding="utf-8")
    shutil.rmtree(folder / "out")
    assert "has errors (1)" in told("flow_import", folder)[1]
