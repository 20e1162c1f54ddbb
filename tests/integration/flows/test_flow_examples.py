"""The flows that ship: checked, their cases run as flow_test runs them, and on real sources."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from agents.flows.definition.archive import read_flow_folder
from agents.flows.runs.start import RunRequest
from agents.flows.versions.dry_run import FlowCase, read_cases, run_cases
from agents.flows.versions.versions import check_flow_files, import_flow
from rag.core.access import Scope
from rag.services.access.api_keys import scope_of
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.integration.flow_world import FLOWS, resume_flow, run_flow
from tests.integration.flow_world import house as house

STORES = {
    "medical_agent_v4": "medical_docs",
    "multi_source_report": "cold_store_guideline",
    "knowledge_update": "library_rules",
}
NAMES = sorted(STORES)


@pytest.fixture
def example(
    request: pytest.FixtureRequest, house: None, settings: Any, tmp_path: Path
) -> Iterator[tuple[Path, Scope]]:
    """A flow's folder and its owner, with the store and the database that it wants."""
    folder: Path = FLOWS / request.param
    user = UserFactory()
    store = StoreFactory(name=STORES[folder.name], owner=user)
    for file in sorted((folder / "documents").iterdir()):
        head, *sections = file.read_text(encoding="utf-8").split("\n## ")
        # Under their title, as a chunk is embedded below its headings.
        parts = [f"{head.splitlines()[0]}\n{section}" for section in sections]
        publish(FileFactory(store=store, name=file.name), *(parts or [head]))
    path = tmp_path / "small.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript((folder / "database.sql").read_text(encoding="utf-8"))
    connections.settings["small"] = {
        **connections.settings["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {},
    }
    settings.RAG = {**settings.RAG, "SOURCE_DATABASES": ("small",)}
    yield folder, scope_of(user)
    with suppress(AttributeError):
        del connections["small"]
    del connections.settings["small"]


def test_all_that_ship_are_tried() -> None:
    assert sorted(path.name for path in FLOWS.iterdir() if path.is_dir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_cases_of_an_example_hold(name: str) -> None:
    results = run_cases(path=FLOWS / name)
    assert len(results) >= 3
    assert {result.name: result.faults for result in results if result.faults} == {}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("example", NAMES, indirect=True)
def test_an_example_does_on_real_sources_what_its_cases_say(example: tuple[Path, Scope]) -> None:
    folder, scope = example
    found = check_flow_files(files=read_flow_folder(folder), scope=scope)
    assert [one.text for one in found if one.level == "error"] == []
    flow = import_flow(path=folder, scope=scope).flow
    routes = set()
    for case in read_cases(folder).cases:
        if (
            any(isinstance(one, dict) and "error" in one for one in case.sources.values())
            and case.expect.variables == {}
        ):
            # Sources that fail are told to; here they do not.
            continue
        request = RunRequest(
            flow=flow,
            scope=scope,
            message=case.message,
            given=case.state,
            model=f"scripted:{folder / 'answers.yaml'}",
        )
        run = run_flow(request=request)
        for node, decision in case.decisions.items():
            run = resume_flow(run=run, scope=scope, decision=decision, node=node)
        _compare(case, run)
        routes.add(tuple(case.expect.route or ()))
    assert len(routes) >= 3


def _compare(case: FlowCase, run: Any) -> None:
    assert run.status == case.expect.status, (case.name, run.error)
    started = run.events.filter(kind="node_started").order_by("seq")
    route = list(dict.fromkeys(started.values_list("node", flat=True)))
    assert route == case.expect.route, case.name
    variables = (run.state or {}).get("edges_var") or {}
    assert case.expect.variables.items() <= variables.items(), case.name
    if run.status == "done":
        assert case.expect.answer in run.state["flow_msgs"][-1]["content"], case.name
    if case.expect.error:
        assert case.expect.error in run.error["params"]["values"], case.name
