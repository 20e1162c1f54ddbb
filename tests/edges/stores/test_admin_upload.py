"""Uploads in the admin: each file is taken or refused on its own, and says why."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.test import Client
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from tests.edges.admin_client import at, client_of, page, words
from tests.factories import EDITOR, FileFactory, StoreFactory, UserFactory, upload

pytestmark = pytest.mark.django_db


@pytest.fixture
def store() -> Any:
    return StoreFactory(owner=UserFactory(permissions=EDITOR))


@pytest.fixture
def client(store: Any) -> Client:
    return client_of(store.owner)


def send(client: Client, store: models.Store, *files: io.BytesIO) -> list[dict[str, Any]]:
    response = client.post(
        at("rag_store_upload", store.pk),
        {"files": list(files)},
        headers={"accept": "application/json"},
    )
    assert response.status_code == 200
    results: list[dict[str, Any]] = response.json()["results"]
    return results


def bundle(**members: bytes) -> io.BytesIO:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members.items():
            target.writestr(name.replace("__", "."), content)
    return upload("bundle.zip", packed.getvalue())


def test_many_files_are_taken_at_once_and_queued(client: Client, store: Any) -> None:
    results = send(client, store, upload("a.txt", b"alpha"), upload("员工.txt", "文".encode()))
    assert [result["outcome"] for result in results] == ["taken", "taken"]
    files = list(models.File.objects.order_by("pk"))
    assert [file.name for file in files] == ["a.txt", "员工.txt"]
    assert [file.size for file in files] == [5, 3]
    assert default_storage.open(files[0].content.name).read() == b"alpha"
    assert {file.status for file in files} == {"processing"}
    locks = set(ProcrastinateJob.objects.values_list("lock", flat=True))
    assert locks == {f"file:{file.pk}" for file in files}
    assert results[0]["url"] == at("rag_file_change", files[0].pk)


def test_one_bad_file_does_not_stop_the_others(client: Client, store: Any, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "MAX_FILE_BYTES": 2 * 1024**2}
    large = upload("large.txt", b"x" * (2 * 1024**2 + 1))
    results = send(client, store, large, upload("..", b"b"), upload("c.txt", b"c"))
    assert [result["outcome"] for result in results] == ["refused", "taken"]
    assert results[0]["text"] == "“large.txt” is larger than 2 MB. Split it and upload the parts."
    assert [file.name for file in models.File.objects.all()] == ["c.txt"]


def test_of_a_huge_file_no_more_than_the_limit_reaches_the_disk(
    client: Client, store: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.RAG = {**settings.RAG, "MAX_FILE_BYTES": 1024**2}
    seen: list[int] = []

    def watch(*, store: Any, name: str, content: Any, encoding: str) -> None:
        seen.append(len(content.read()))
        content.seek(0)
        ingest(store=store, name=name, content=content)

    from rag.admin.stores import upload as store_upload

    ingest = store_upload.upload_file
    monkeypatch.setattr(store_upload, "upload_file", watch)
    results = send(client, store, upload("huge.txt", b"x" * (5 * 1024**2)))
    assert seen == [1024**2 + 1]
    assert results[0]["outcome"] == "refused"


def test_the_largest_allowed_file_is_taken(client: Client, store: Any, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "MAX_FILE_BYTES": 1024**2}
    results = send(client, store, upload("full.txt", b"x" * 1024**2))
    assert results[0]["outcome"] == "taken"
    assert models.File.objects.get().size == 1024**2


def test_the_same_bytes_are_one_file_and_said_so(client: Client, store: Any) -> None:
    send(client, store, upload("first.txt", b"same"))
    results = send(client, store, upload("second.txt", b"same"))
    assert results[0]["outcome"] == "known"
    assert "as “first.txt”; nothing was added" in results[0]["text"]
    assert models.File.objects.count() == 1
    assert results[0]["id"] == models.File.objects.get().pk


def test_a_zip_answers_for_each_file_in_it(client: Client, store: Any) -> None:
    results = send(client, store, bundle(one__txt=b"1", two__txt=b"2", three__txt=b"1"))
    outcomes = [(result["name"], result["outcome"]) for result in results]
    assert outcomes == [("one.txt", "taken"), ("two.txt", "taken"), ("three.txt", "known")]


def test_a_zip_bomb_is_refused_with_a_reason(client: Client, store: Any) -> None:
    results = send(client, store, bundle(bomb__txt=b"0" * (30 * 1024**2)), upload("ok.txt", b"ok"))
    assert [result["outcome"] for result in results] == ["refused", "taken"]
    assert "would unpack to 1 files" in results[0]["text"]


def test_without_a_script_the_page_itself_tells(client: Client, store: Any) -> None:
    files = [upload("<img src=x onerror=alert(1)>.txt", b"1"), upload("b.txt", b"2")]
    response = client.post(at("rag_store_upload", store.pk), {"files": files})
    shown = response.content.decode()
    assert "<img src=x" not in shown
    assert "&lt;img src=x onerror=alert(1)&gt;.txt" in shown
    assert shown.count("taken, waiting for indexing") == 2


def test_an_upload_of_nothing_is_said(client: Client, store: Any) -> None:
    shown = client.post(at("rag_store_upload", store.pk), {}).content.decode()
    assert "No file was chosen." in shown


def test_a_forged_post_is_refused(store: Any) -> None:
    forged = Client(enforce_csrf_checks=True)
    forged.force_login(store.owner)
    response = forged.post(at("rag_store_upload", store.pk), {"files": upload("a.txt", b"a")})
    assert response.status_code == 403
    assert not models.File.objects.exists()
    token = forged.get(at("rag_store_upload", store.pk)).cookies["csrftoken"].value
    data = {"files": upload("a.txt", b"a"), "csrfmiddlewaretoken": token}
    assert forged.post(at("rag_store_upload", store.pk), data).status_code == 200
    assert models.File.objects.exists()


def test_the_page_tells_kinds_and_limit_in_both_languages(client: Client, store: Any) -> None:
    text = words(page(client, "rag_store_upload", store.pk))
    assert ".docx" in text
    assert "up to 100 MB each" in text
    chinese = words(page(client_of(store.owner, "zh-hans"), "rag_store_upload", store.pk))
    assert "100 MB" in chinese
    assert "Drop files" not in chinese


def test_a_refusal_is_in_the_reader_s_language(store: Any, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "MAX_FILE_BYTES": 1024**2}
    chinese = client_of(store.owner, "zh-hans")
    results = send(chinese, store, upload("大.txt", b"x" * (1024**2 + 1)))
    assert results[0]["text"] == "“大.txt”大于 1 MB。 请拆分后分别上传。"


def test_nothing_is_added_to_another_store(client: Client, store: Any) -> None:
    other = FileFactory().store
    before = other.files.count()
    response = client.post(at("rag_store_upload", other.pk), {"files": upload("a.txt", b"a")})
    assert response.status_code == 404
    assert other.files.count() == before


def test_a_text_is_read_by_the_encoding_that_was_chosen(client: Client, store: Any) -> None:
    shown = words(page(client, "rag_store_upload", store.pk))
    assert "Encoding of text files" in shown
    assert "GB18030 / GBK / GB2312" in shown
    address = at("rag_store_upload", store.pk)
    json = {"accept": "application/json"}
    files = [upload("a.txt", b"\xcb\xae"), bundle(b__txt=b"\xb1\xc3", c__txt=b"\xb7\xa7")]
    answer = client.post(address, {"files": files, "encoding": "gbk"}, headers=json).json()
    assert [result["outcome"] for result in answer["results"]] == ["taken"] * 3
    assert set(models.File.objects.values_list("encoding_override", flat=True)) == {"gb18030"}
    answer = client.post(
        address, {"files": [upload("d.txt", b"d")], "encoding": "klingon"}, headers=json
    ).json()
    assert answer["results"][0]["outcome"] == "refused"
    assert answer["results"][0]["text"].startswith("“klingon” is no encoding of texts. Known are")
    assert models.File.objects.count() == 3
