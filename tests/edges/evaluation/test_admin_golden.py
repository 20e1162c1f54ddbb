"""Golden questions and evaluation runs in the admin, for a store's editors only."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from rag import models
from rag.services.evaluation.runs import evaluate_store, run_evaluation_job
from tests.edges.admin_client import (
    at,
    client_of,
    page,
    post_action,
    streamed,
    use_words_embedder,
    words,
)
from tests.factories import EDITOR, GroupFactory, UserFactory
from tests.integration.golden_world import TEXTS, golden, golden_store

pytestmark = pytest.mark.django_db
RIGHTS = (
    *EDITOR,
    "view_goldenquestion",
    "add_goldenquestion",
    "change_goldenquestion",
    "delete_goldenquestion",
    "view_evaluationrun",
    "add_evaluationrun",
    "delete_evaluationrun",
)


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def world() -> tuple[models.Store, list[models.Chunk], Client]:
    store, chunks = golden_store()
    store.owner = UserFactory(permissions=RIGHTS)
    store.save()
    return store, chunks, client_of(store.owner)


def form(store: models.Store, query: str, *targets: dict[str, Any], had: int = 0) -> dict[str, Any]:
    data: dict[str, Any] = {
        "store": store.pk,
        "query": query,
        "enabled": "on",
        "note": "",
        "targets-TOTAL_FORMS": len(targets),
        "targets-INITIAL_FORMS": had,
    }
    for n, target in enumerate(targets):
        values = {"chunk": "", "file": "", "grade": 1, **target}
        data |= {f"targets-{n}-{name}": value for name, value in values.items()}
    return data


def test_a_question_is_written_and_changed(world: Any) -> None:
    store, chunks, client = world
    assert store.name in page(client, "rag_goldenquestion_add")
    made = client.post(
        at("rag_goldenquestion_add"),
        form(store, " How long? ", {"chunk": chunks[0].pk, "grade": 3}),
        follow=True,
    )
    assert made.status_code == 200
    question = models.GoldenQuestion.objects.get()
    assert (question.query, question.created_by, question.origin) == (
        "How long?",
        store.owner,
        "hand",
    )
    target = question.targets.get()
    assert (target.chunk_id, target.file_id, target.grade) == (
        chunks[0].pk,
        chunks[0].file_id,
        3,
    )
    shown = page(client, "rag_goldenquestion_change", question.pk)
    assert "How long?" in shown
    data = form(
        store,
        "How long now?",
        {"id": target.pk, "chunk": chunks[1].pk},
        {"file": chunks[0].file_id, "grade": 2},
        had=1,
    )
    client.post(at("rag_goldenquestion_change", question.pk), data)
    assert {(t.chunk_id, t.file_id, t.grade) for t in question.targets.all()} == {
        (chunks[1].pk, chunks[0].file_id, 1),
        (None, chunks[0].file_id, 2),
    }


def test_what_is_not_in_the_store_or_expected_twice_is_refused(world: Any) -> None:
    store, chunks, client = world
    other, others = golden_store()
    other.owner = store.owner
    other.save()
    twice = {"chunk": chunks[0].pk}
    for targets, said in (
        ([{"chunk": others[0].pk}], "not in the question's store"),
        ([{"grade": 2}], "Choose a chunk or a file"),
        ([twice, twice], "expected already"),
        ([{"chunk": chunks[0].pk, "grade": 9}], "less than or equal to 3"),
    ):
        shown = client.post(at("rag_goldenquestion_add"), form(store, "x", *targets))
        assert said in words(shown.content.decode())
    golden(store, "taken")
    shown = client.post(at("rag_goldenquestion_add"), form(store, "taken"))
    assert "has this question already" in words(shown.content.decode())
    assert models.GoldenQuestion.objects.count() == 1


def test_a_foreign_store_cannot_be_chosen(world: Any) -> None:
    _, _, client = world
    foreign, _ = golden_store()
    shown = client.post(at("rag_goldenquestion_add"), form(foreign, "x"))
    assert "Select a valid choice" in words(shown.content.decode())
    assert foreign.name not in page(client, "rag_goldenquestion_add")
    assert not models.GoldenQuestion.objects.exists()


def test_questions_are_switched_exported_and_filtered(world: Any) -> None:
    store, chunks, client = world
    one = golden(store, "warranty?", [chunks[0]])
    two = golden(store, "<script>alert(1)</script>")
    shown = page(client, "rag_goldenquestion_changelist")
    assert "<script>alert" not in shown
    assert "warranty?" not in page(client, "rag_goldenquestion_changelist", expects="none")
    assert "warranty?" in page(client, "rag_goldenquestion_changelist", expects="some")
    post_action(client, "goldenquestion", "disable", [one.pk, two.pk])
    assert not models.GoldenQuestion.objects.filter(enabled=True).exists()
    post_action(client, "goldenquestion", "enable", [one.pk])
    assert models.GoldenQuestion.objects.get(enabled=True) == one
    chosen = post_action(client, "goldenquestion", "export_chosen", [one.pk])
    text = streamed(chosen).decode()
    assert TEXTS[0] in text
    assert "script" not in text
    whole = client.get(at("rag_goldenquestion_export", store=store.pk))
    assert b"script" in streamed(whole)


def test_a_csv_is_taken_and_its_bad_lines_are_told(world: Any) -> None:
    store, chunks, client = world
    text = f"question,file,passage\nwarranty?,guide.txt,{TEXTS[0]}\nbad,<b>no</b>.txt,\n"
    upload = SimpleUploadedFile("q.csv", text.encode())
    shown = client.post(at("rag_goldenquestion_import"), {"store": store.pk, "file": upload})
    said = words(shown.content.decode())
    assert "1 new, 0 completed." in said
    assert "The store has no file" in said
    assert "<b>no</b>" not in shown.content.decode()
    assert store.golden_questions.get().targets.get().chunk_id == chunks[0].pk
    upload = SimpleUploadedFile("q.csv", b"\x00\x01")
    shown = client.post(at("rag_goldenquestion_import"), {"store": store.pk, "file": upload})
    assert shown.status_code == 200
    assert "is binary" in words(shown.content.decode())
    foreign, _ = golden_store()
    shown = client.post(
        at("rag_goldenquestion_import"),
        {"store": foreign.pk, "file": SimpleUploadedFile("q.csv", text.encode())},
    )
    assert not foreign.golden_questions.exists()


def worked(client: Client) -> str:
    run = models.EvaluationRun.objects.latest("pk")
    run_evaluation_job(run_id=run.pk)
    return page(client, "rag_evaluationrun_change", run.pk)


def test_a_run_is_watched_and_stopped(world: Any) -> None:
    store, chunks, client = world
    golden(store, "warranty of the pump", [chunks[0]])
    client.post(at("rag_evaluationrun_run", store.pk))
    client.post(at("rag_evaluationrun_run", store.pk))
    run = models.EvaluationRun.objects.get()
    address = at("rag_evaluationrun_progress", run.pk)
    told = client.get(address).json()
    assert (told["is_busy"], told["n_done"], told["n_questions"]) == (True, 0, 1)
    assert "waiting" in told["state"]
    looker = UserFactory(permissions=("view_evaluationrun", "view_store"))
    store.editor_groups.add(group := GroupFactory())
    looker.groups.add(group)
    assert client_of(looker).post(address).status_code == 403
    assert client_of(UserFactory(permissions=RIGHTS)).post(address).status_code == 404
    assert "Stop the run" not in page(client_of(looker), "rag_evaluationrun_changelist")
    stopped = client.post(address, follow=True)
    assert "stopped before it had figures" in words(stopped.content.decode())
    assert client.get(address).json()["is_busy"] is False
    again = post_action(client, "evaluationrun", "cancel", [run.pk])
    assert "0 runs were stopped." in words(again.content.decode())
    listed = words(page(client, "rag_evaluationrun_changelist", state__exact="cancelled"))
    assert "– – –" in listed
    assert "Figures over time" in words(
        page(client, "rag_evaluationrun_changelist", store=store.pk)
    )


def test_a_store_is_measured_and_two_runs_are_compared(world: Any) -> None:
    store, chunks, client = world
    shown = client.post(at("rag_evaluationrun_run", store.pk), follow=True)
    assert "no golden question" in words(shown.content.decode())
    golden(store, "warranty of the pump", [chunks[0]])
    golden(store, "seeds <img src=x> in a cool room", [chunks[1]])
    waits = client.post(at("rag_evaluationrun_run", store.pk), follow=True)
    assert "golden questions are being asked" in words(waits.content.decode())
    first = worked(client)
    assert "nDCG@10 1.000" in words(first)
    assert "<img src=x>" not in first
    models.Store.objects.update(retrieval={"fusion": "rrf"})
    models.Chunk.objects.filter(pk=chunks[1].pk).update(enabled=False)
    client.post(at("rag_evaluationrun_run", store.pk))
    worked(client)
    after, before = models.EvaluationRun.objects.order_by("-pk")
    diff = page(client, "rag_evaluationrun_compare", after.pk, before=before.pk)
    said = words(diff)
    assert "0 better, 1 worse, 1 the same" in said
    assert "may be chance" in said
    assert "fusion weighted rrf" in said
    assert "<img src=x>" not in diff
    chart = page(client, "rag_evaluationrun_changelist", store=store.pk)
    assert chart.count("<polyline") == 3
    assert client.get(at("rag_evaluationrun_compare", after.pk, before=10**9)).status_code == 404


def test_readers_and_strangers_find_nothing(world: Any) -> None:
    store, chunks, _ = world
    question = golden(store, "secret question", [chunks[0]])
    run = evaluate_store(store=store, facts={"label": "secret run"})
    readers = GroupFactory()
    store.reader_groups.add(readers)
    people = [UserFactory(permissions=RIGHTS, groups=[readers]), UserFactory(permissions=RIGHTS)]
    for client in map(client_of, people):
        for model in ("goldenquestion", "evaluationrun"):
            assert "secret" not in page(client, f"rag_{model}_changelist")
            assert "secret" not in page(client, f"rag_{model}_changelist", store=store.pk)
        exported = client.get(at("rag_goldenquestion_export"))
        assert b"secret" not in streamed(exported)
        for address in (
            at("rag_goldenquestion_change", question.pk),
            at("rag_evaluationrun_change", run.pk),
            at("rag_evaluationrun_compare", run.pk, before=run.pk),
        ):
            assert client.get(address).status_code in (302, 404)
        assert client.post(at("rag_evaluationrun_run", store.pk)).status_code in (403, 404)
        post_action(client, "goldenquestion", "disable", [question.pk])
        post_action(client, "goldenquestion", "delete_selected", [question.pk], post="yes")
    question.refresh_from_db()
    assert question.enabled
    nobody = client_of(UserFactory(permissions=()))
    for name in ("rag_goldenquestion_export", "rag_goldenquestion_import"):
        assert nobody.get(at(name)).status_code in (302, 403)
    assert models.EvaluationRun.objects.count() == 1


def test_lists_take_no_more_queries_for_more_rows(world: Any) -> None:
    store, chunks, client = world

    def statements(name: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            page(client, f"rag_{name}_changelist")
        return len(captured)

    for n in range(2):
        golden(store, f"few {n}", [chunks[0]])
        evaluate_store(store=store)
    few = [statements("goldenquestion"), statements("evaluationrun")]
    for n in range(6):
        golden(store, f"many {n}", [chunks[0]])
        evaluate_store(store=store)
    assert [statements("goldenquestion"), statements("evaluationrun")] == few
    assert max(few) <= 16
