"""Admin under abuse: CSRF, state changes by GET, foreign rows, double submits, odd CSV files."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from rag import models
from rag.services.files.requeue import requeue_files
from rag.services.stores.lifecycle import create_store
from tests.edges.admin_client import at, client_of, page, streamed, use_words_embedder, words
from tests.edges.api.test_access_paths import addresses
from tests.factories import EDITOR, FileFactory, StoreFactory, UserFactory, publish
from tests.integration.golden_world import golden, golden_store

pytestmark = pytest.mark.django_db
GOLDEN = ("view_goldenquestion", "add_goldenquestion", "change_goldenquestion")


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


def test_no_page_of_the_desk_takes_a_post_without_its_token() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(UserFactory(is_superuser=True))
    desk = sorted(address for address in set(addresses()) if address.startswith("/admin/"))
    assert len(desk) > 100
    # A language may be chosen by anybody for himself; what is not there takes nothing.
    taken = {address: client.post(address).status_code for address in desk}
    assert {a: s for a, s in taken.items() if s not in (403, 404, 405)} == {}
    assert not models.Store.objects.exists()


def test_what_changes_something_is_never_done_by_a_link() -> None:
    store, chunks = golden_store()
    golden(store, "warranty", [chunks[0]])
    client = client_of(UserFactory(is_superuser=True))
    for name, pk in (("rag_evaluationrun_run", store.pk), ("rag_querylog_golden", 1)):
        assert client.get(at(name, pk)).status_code == 405, name
    assert not models.EvaluationRun.objects.exists()


def test_a_form_that_comes_back_names_nothing_that_one_may_not_read() -> None:
    owner = UserFactory(permissions=(*EDITOR, *GOLDEN))
    store, _ = golden_store()
    models.Store.objects.filter(pk=store.pk).update(owner=owner)
    secret = FileFactory(store=StoreFactory(), name="hushed file.txt")
    chunk = publish(secret, "hushed words")[0]
    data = {
        "store": store.pk,
        "query": "x",
        "targets-TOTAL_FORMS": 1,
        "targets-INITIAL_FORMS": 0,
        "targets-0-chunk": chunk.pk,
        "targets-0-file": secret.pk,
        "targets-0-grade": 1,
    }
    shown = client_of(owner).post(at("rag_goldenquestion_add"), data).content.decode()
    assert "Select a valid choice" in words(shown)
    assert "hushed" not in shown
    assert not models.GoldenQuestion.objects.exists()


def test_a_choice_of_chunks_names_file_and_words_of_what_one_may_read() -> None:
    owner = UserFactory(permissions=(*EDITOR, *GOLDEN))
    store, chunks = golden_store("<b>The pump</b> lasts two years.")
    models.Store.objects.filter(pk=store.pk).update(owner=owner)
    publish(FileFactory(name="hushed file.txt"), "hushed words")
    asked = {"app_label": "rag", "model_name": "goldentarget", "field_name": "chunk"}
    client = client_of(owner)
    told = client.get(reverse("admin:autocomplete"), asked).json()["results"]
    assert [(one["id"], one["text"]) for one in told] == [
        (str(chunks[0].pk), "guide.txt #0: <b>The pump</b> lasts two years.")
    ]
    question = golden(store, "How long?", [chunks[0]])
    shown = page(client, "rag_goldenquestion_change", question.pk)
    assert "<b>The pump" not in shown
    assert "guide.txt #0: &lt;b&gt;The pump" in shown


def test_a_store_that_is_sent_twice_is_made_once() -> None:
    client = client_of(UserFactory(permissions=EDITOR))
    form = {"name": "Handbooks", "max_tokens_per_chunk": 200, "max_overlap_tokens": 20}
    assert client.post(at("rag_store_add"), form).status_code == 302
    again = client.post(at("rag_store_add"), form)
    assert again.status_code == 200
    assert "already exists" in words(again.content.decode())
    assert models.Store.objects.count() == 1


def test_odd_tables_are_refused_or_read_and_their_formulas_stay_words() -> None:
    store, _ = golden_store()
    client = client_of(UserFactory(is_superuser=True))

    def send(data: bytes) -> str:
        upload = SimpleUploadedFile("q.csv", data)
        shown = client.post(at("rag_goldenquestion_import"), {"store": store.pk, "file": upload})
        assert shown.status_code == 200
        return words(shown.content.decode())

    assert "no column" in send(b"a,b\n1,2\n")
    for table, line in ((b"question\n" + b"x" * 140_000, 2), (b"q" * 140_000 + b"\n", 1)):
        said = send(table)
        assert f"Line {line} of the CSV cannot be read" in said
        assert "more than 131072 characters. A quotation mark" in said
    assert "empty" in send(b"")
    assert "1 new, 0 completed." in send("question;note\nWas kostet das Gerät?;ä".encode("latin-1"))
    assert "1 new" in send(b"question\n'=1+1\n")
    assert models.GoldenQuestion.objects.filter(query="=1+1").exists()
    exported = streamed(client.get(at("rag_goldenquestion_export"))).decode()
    assert "\n'=1+1," in exported.replace("\r", "")


def test_a_name_is_shown_as_words_wherever_a_job_is_listed() -> None:
    store = create_store(name="<img src=x onerror=alert(1)>")
    FileFactory(store=store, name="<script>alert(1)</script>.txt", revision=1)
    requeue_files(store=store)
    client = client_of(UserFactory(is_superuser=True))
    shown = page(client, "procrastinate_procrastinatejob_changelist")
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert(1)" in shown
    assert "read and index a file" in words(shown)
