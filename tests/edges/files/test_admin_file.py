"""Files in the admin: status, progress, errors, text with pages, original, retry and delete."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.test import Client
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.admin.files import text_page as file_pages
from rag.core.errors import DocumentError
from rag.services.files import stream_bytes
from rag.services.files.requeue import requeue_files
from tests.edges.admin_client import at, client_of, page, post_action, words
from tests.factories import EDITOR, FileFactory, GroupFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db
HTML = "<script>alert(1)</script>"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"


@pytest.fixture
def store() -> Any:
    return StoreFactory(owner=UserFactory(permissions=EDITOR))


@pytest.fixture
def client(store: Any) -> Client:
    return client_of(store.owner)


def bytes_of(response: Any) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return b"".join(response)


def test_the_list_shows_what_happened_to_each_file(client: Client, store: Any) -> None:
    done = FileFactory(store=store, name="done.txt", size=2048, warnings=["page 3 is empty"])
    publish(done, "one", "two", "three")
    error = DocumentError("“{name}” needs a password.", hint="Remove it.", name="locked.pdf")
    FileFactory(store=store, name="locked.pdf", status="error", error=error.as_dict())
    progress = {"stage": "embedding", "chunks": 12, "share": 0.25}
    FileFactory(store=store, name="running.txt", status="processing", progress=progress)
    shown = page(client, "rag_file_changelist")
    text = words(shown)
    assert "“locked.pdf” needs a password. Remove it." in text
    assert "indexing, 25 %, 12 chunks" in text
    assert '<progress class="desk-progress" max="100" value="25">' in shown
    assert 'desk-good">completed' in shown
    assert 'desk-bad">error' in shown
    assert "2.0\xa0KB" in shown
    assert 'title="page 3 is empty"' in shown
    assert "progress.js" in shown


def test_the_list_can_be_narrowed(client: Client, store: Any) -> None:
    other = StoreFactory(owner=store.owner)
    FileFactory(store=store, name="alpha.txt")
    FileFactory(store=store, name="beta.pdf", kind="pdf", status="error")
    FileFactory(store=other, name="gamma.txt")
    for query, names in (
        ({"store": store.pk}, {"alpha", "beta"}),
        ({"status__exact": "error"}, {"beta"}),
        ({"kind": "pdf"}, {"beta"}),
        ({"q": "gam"}, {"gamma"}),
    ):
        text = page(client, "rag_file_changelist", **query)
        assert {name for name in ("alpha", "beta", "gamma") if f"{name}." in text} == names


def test_a_file_named_in_html_does_nothing(client: Client, store: Any) -> None:
    error = DocumentError("“{name}” is bad.", name=HTML).as_dict()
    file = FileFactory(
        store=store, name=HTML, status="error", error=error, warnings=[HTML], encoding=HTML
    )
    publish(file, f"text {HTML}")
    models.File.objects.filter(pk=file.pk).update(status="error", error=error)
    addresses = [
        at("rag_file_changelist"),
        at("rag_file_change", file.pk),
        at("rag_file_delete", file.pk),
        at("rag_file_text", file.pk),
        at("rag_file_history", file.pk),
        at("rag_chunk_changelist"),
        at("rag_chunk_changelist", file=file.pk),
    ]
    for address in addresses:
        shown = client.get(address).content.decode()
        assert "<script>alert(1)" not in shown, address
        assert ESCAPED in shown, address
    progress = client.get(at("rag_file_progress", ids=file.pk)).json()
    assert ESCAPED in progress["files"][0]["status"]
    confirm = post_action(client, "file", "delete_selected", [file.pk]).content.decode()
    assert "<script>alert(1)" not in confirm
    saved = client.post(at("rag_file_change", file.pk), form(file), follow=True).content.decode()
    assert "<script>alert(1)" not in saved


def test_progress_is_told_to_the_script(client: Client, store: Any) -> None:
    file = FileFactory(store=store, status="processing", progress={"stage": "waiting"})
    done = FileFactory(store=store)
    publish(done, "one", "two")
    response = client.get(at("rag_file_progress", ids=f"{file.pk},{done.pk},999999999,x,²"))
    by_id = {row["id"]: row for row in response.json()["files"]}
    assert set(by_id) == {file.pk, done.pk}
    assert by_id[file.pk]["is_busy"]
    assert "waiting for its turn" in by_id[file.pk]["status"]
    assert not by_id[done.pk]["is_busy"]
    assert (by_id[done.pk]["n_pages"], by_id[done.pk]["chunks"]) == ("2", "2")


def test_chosen_files_are_read_again(client: Client, store: Any) -> None:
    files = [FileFactory(store=store, status="error") for _ in range(2)]
    ids = [file.pk for file in files]
    post_action(client, "file", "retry", ids)
    assert not ProcrastinateJob.objects.exists()
    response = post_action(client, "file", "retry", ids, confirmed="yes")
    assert "2 files were queued." in response.content.decode()
    assert set(models.File.objects.values_list("status", flat=True)) == {"processing"}
    assert ProcrastinateJob.objects.count() == 2


def test_waiting_files_are_taken_out_of_the_queue(client: Client, store: Any) -> None:
    fresh, served = FileFactory(store=store), FileFactory(store=store)
    publish(served, "text")
    requeue_files(store=store)
    response = post_action(client, "file", "cancel", [fresh.pk, served.pk])
    assert "2 files were taken out." in response.content.decode()
    statuses = models.File.objects.in_bulk()
    assert (statuses[fresh.pk].status, statuses[served.pk].status) == ("idle", "completed")
    assert set(ProcrastinateJob.objects.values_list("status", flat=True)) == {"cancelled"}


def test_deleting_tells_what_goes_and_takes_everything(
    client: Client, store: Any, django_capture_on_commit_callbacks: Any
) -> None:
    file = FileFactory(store=store, name="gone.txt")
    publish(file, "one", "two")
    text = words(page(client, "rag_file_delete", file.pk))
    assert "gone.txt" in text
    assert "Chunks: 2" in text
    with django_capture_on_commit_callbacks(execute=True):
        client.post(at("rag_file_delete", file.pk), {"post": "yes"})
    assert not models.File.objects.exists()
    assert not models.Chunk.objects.exists()
    assert not default_storage.exists(file.content.name)


def form(file: models.File, **values: Any) -> dict[str, Any]:
    fields = {"name": file.name, "content_type": file.content_type, "metadata": "{}"}
    return {**fields, **values}


def test_facts_are_changed_without_touching_the_worker_s_fields(client: Client, store: Any) -> None:
    group = GroupFactory()
    store.owner.groups.add(group)
    file = FileFactory(store=store)
    chunk = publish(file, "text")[0]
    models.File.objects.filter(pk=file.pk).update(status="processing", revision=9)
    values = {"name": "dir/new.txt", "content_type": "outline", "metadata": '{"year": 2024}'}
    response = client.post(
        at("rag_file_change", file.pk), form(file, **values, restricted_to=[group.pk])
    )
    assert response.status_code == 302, response.context["errors"]
    file.refresh_from_db()
    chunk.refresh_from_db()
    assert (file.name, file.metadata, file.status, file.revision) == (
        "new.txt",
        {"year": 2024},
        "processing",
        9,
    )
    assert chunk.content_type == "outline"
    assert list(file.restricted_to.all()) == [group]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": "\x01"}, "name"),
        ({"metadata": "[1]"}, "metadata"),
        ({"metadata": "{"}, "metadata"),
    ],
)
def test_what_a_file_cannot_be_is_said(
    client: Client, store: Any, values: dict[str, Any], field: str
) -> None:
    file = FileFactory(store=store)
    response = client.post(at("rag_file_change", file.pk), form(file, **values))
    assert list(response.context["adminform"].form.errors) == [field]


def test_the_original_is_a_download_of_the_very_bytes(client: Client, store: Any) -> None:
    file = FileFactory(store=store, name="员工 手册.html")
    response = client.get(at("rag_file_original", file.pk))
    assert bytes_of(response) == b"the original"
    assert response["Content-Type"] == "application/octet-stream"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Length"] == "12"
    assert response["Content-Disposition"].startswith("attachment; filename*=utf-8''%E5%91%98")


def test_missing_bytes_are_not_found(client: Client, store: Any) -> None:
    file = FileFactory(store=store)
    default_storage.delete(file.content.name)
    assert client.get(at("rag_file_original", file.pk)).status_code == 404


async def test_the_original_is_streamed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("rag.services.files.content.PIECE", 4)
    content = io.BytesIO(b"0123456789")
    assert [piece async for piece in stream_bytes(content, 9)] == [b"0123", b"4567", b"8"]
    assert content.closed


def test_the_text_is_shown_with_the_borders_of_its_pages(client: Client, store: Any) -> None:
    file = FileFactory(store=store)
    publish(file, "first <b>page</b>", "second page")
    text = page(client, "rag_file_text", file.pk)
    assert "first &lt;b&gt;page&lt;/b&gt;" in text
    assert text.index("Page 1") < text.index("first") < text.index("Page 2") < text.index("second")


def test_a_page_without_a_text_layer_is_marked(client: Client, store: Any) -> None:
    file = FileFactory(store=store)
    publish(file, "one", "two")
    pages = [{**entry, "has_text_layer": entry["number"] == 1} for entry in file.pages]
    models.File.objects.filter(pk=file.pk).update(pages=pages)
    assert page(client, "rag_file_text", file.pk).count("no text layer") == 1


def test_what_runs_through_the_pages_is_shown_beside_its_page(client: Client, store: Any) -> None:
    file = FileFactory(store=store)
    publish(file, "first words", "second words")
    pages = [{**entry, "margin": f"ACME page {entry['number']}"} for entry in file.pages]
    models.File.objects.filter(pk=file.pk).update(pages=pages)
    text = page(client, "rag_file_text", file.pk)
    assert text.index("in no chunk: ACME page 1") < text.index("first words")
    assert text.index("in no chunk: ACME page 2") < text.index("second words")


def test_a_long_text_is_shown_window_by_window(
    client: Client, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_pages, "WINDOW", 10)
    file = FileFactory(store=store)
    publish(file, "abcdefghijklmno", "pqrstuvwxyz")
    first = client.get(at("rag_file_text", file.pk)).context
    assert pieces(first) == [(1, False, ["abcdefghij"])]
    assert (first["before"], first["after"]) == (None, 10)
    second = client.get(at("rag_file_text", file.pk, at=10)).context
    assert pieces(second) == [(1, True, ["klmno"]), (2, False, ["pqrs"])]
    last = client.get(at("rag_file_text", file.pk, at=99999)).context
    assert pieces(last) == [(2, True, ["tuvwxyz"])]
    assert last["after"] is None


def pieces(context: Any) -> list[Any]:
    return [
        (section["number"], section["is_continued"], [piece.text for piece in section["pieces"]])
        for section in context["sections"]
    ]


def test_a_span_is_marked_in_the_text(client: Client, store: Any) -> None:
    file = FileFactory(store=store)
    chunk = publish(file, "nothing here", "the very span")[1]
    shown = page(client, "rag_file_text", file.pk, at=f"{chunk.char_start + 4}-{chunk.char_end}")
    assert '<mark id="mark">very span</mark>' in shown
    assert page(client, "rag_file_text", file.pk, at="x-²").count("<mark") == 0


def test_a_file_without_text_says_so(client: Client, store: Any) -> None:
    assert "There is no text yet." in page(client, "rag_file_text", FileFactory(store=store).pk)


def test_a_garbled_text_is_read_by_another_encoding(client: Client, store: Any) -> None:
    file = FileFactory(store=store, name="a.txt")
    publish(file, "text")
    assert "auto-detected" in page(client, "rag_file_change", file.pk)
    values = {**form(file), "encoding_override": "big5hkscs"}
    said = client.post(at("rag_file_change", file.pk), values, follow=True).content.decode()
    assert "The file is read and indexed again." in said
    file.refresh_from_db()
    assert (file.encoding_override, file.status) == ("big5hkscs", "processing")
    assert ProcrastinateJob.objects.count() == 1
    # Saved again without a change, nothing is queued.
    models.File.objects.update(status="completed")
    said = client.post(at("rag_file_change", file.pk), values, follow=True).content.decode()
    assert "read and indexed again." not in said
    file.refresh_from_db()
    assert file.status == "completed"


def test_an_encoding_that_is_not_in_the_list_stays_and_an_unknown_one_is_refused(
    client: Client, store: Any
) -> None:
    file = FileFactory(store=store, name="a.txt", encoding_override="koi8-r")
    publish(file, "text")
    assert '<option value="koi8-r" selected>' in page(client, "rag_file_change", file.pk)
    values = form(file)
    client.post(at("rag_file_change", file.pk), {**values, "encoding_override": "koi8-r"})
    file.refresh_from_db()
    assert file.encoding_override == "koi8-r"
    refused = client.post(
        at("rag_file_change", file.pk), {**values, "encoding_override": "klingon"}
    )
    assert refused.status_code == 200
    file.refresh_from_db()
    assert file.encoding_override == "koi8-r"
