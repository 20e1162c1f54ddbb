"""Files by the API: uploaded, described, read, downloaded and deleted, each by whom it may."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from django.core.files.storage import default_storage
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.errors import DocumentError
from tests.edges.api_client import WRITER, KeyClient, client_for, error_of, ok
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish, upload

pytestmark = pytest.mark.django_db


@pytest.fixture
def store() -> Any:
    return StoreFactory(owner=UserFactory(permissions=WRITER), slug="manuals")


@pytest.fixture
def client(store: Any) -> KeyClient:
    return client_for(store.owner)


def post(
    client: KeyClient, *files: io.BytesIO, status: int = 201, **form: Any
) -> list[dict[str, Any]]:
    response = client.post("/api/files", {"store": "manuals", "files": list(files), **form})
    results: list[dict[str, Any]] = ok(response, status)["results"]
    return results


@pytest.mark.parametrize("by", ["slug", "pk", "name", "resource_name"])
def test_files_are_taken_and_queued(client: KeyClient, store: Any, by: str) -> None:
    metadata = {"lang": "zh", "year": 2024}
    results = post(
        client,
        upload("a.txt", b"alpha"),
        upload("员工.txt", "文".encode()),
        store=str(getattr(store, by)),
        content_type="manual",
        metadata=json.dumps(metadata),
    )
    assert [(one["name"], one["outcome"], one["error"]) for one in results] == [
        ("a.txt", "taken", None),
        ("员工.txt", "taken", None),
    ]
    files = list(models.File.objects.order_by("pk"))
    assert [one["file"]["id"] for one in results] == [file.pk for file in files]
    assert {(file.content_type, str(file.metadata)) for file in files} == {
        ("manual", str(metadata))
    }
    assert default_storage.open(files[0].content.name).read() == b"alpha"
    locks = set(ProcrastinateJob.objects.values_list("lock", flat=True))
    assert locks == {f"file:{file.pk}" for file in files}


def test_the_same_bytes_are_known_and_a_bad_file_stops_no_other(
    client: KeyClient, settings: Any
) -> None:
    settings.RAG = {**settings.RAG, "MAX_FILE_BYTES": 1024**2}
    post(client, upload("a.txt", b"alpha"))
    known = post(client, upload("b.txt", b"alpha"), status=200)
    assert known[0]["outcome"] == "known"
    assert known[0]["file"]["name"] == "a.txt"
    large = upload("large.txt", b"x" * (1024**2 + 1))
    results = post(client, large, upload("c.txt", b"c"))
    assert [one["outcome"] for one in results] == ["refused", "taken"]
    assert results[0]["error"]["message"] == "“large.txt” is larger than 1 MB."
    large.seek(0)
    assert post(client, large, status=422)[0]["file"] is None


def test_a_zip_answers_for_each_document(client: KeyClient) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as target:
        target.writestr("one.txt", b"1")
        target.writestr("sub/two.txt", b"2")
    results = post(client, upload("bundle.zip", packed.getvalue()))
    assert [(one["name"], one["outcome"]) for one in results] == [
        ("one.txt", "taken"),
        ("sub/two.txt", "taken"),
    ]


def test_replacing_gives_a_file_new_bytes(
    client: KeyClient, store: Any, django_capture_on_commit_callbacks: Any
) -> None:
    first = post(client, upload("plan.txt", b"old"), metadata='{"a": 1}')[0]["file"]
    old_path = models.File.objects.get().content.name
    with django_capture_on_commit_callbacks(execute=True):
        results = post(
            client, upload("plan.txt", b"new!"), upload("more.txt", b"m"), replace="true"
        )
    assert [one["outcome"] for one in results] == ["replaced", "taken"]
    row = models.File.objects.get(pk=first["id"])
    assert (row.size, row.status, row.metadata) == (4, "processing", {"a": 1})
    assert default_storage.open(row.content.name).read() == b"new!"
    assert not default_storage.exists(old_path)
    assert (
        post(client, upload("plan.txt", b"new!"), replace="true", status=200)[0]["outcome"]
        == "known"
    )
    FileFactory(store=store, name="more.txt", sha256="0" * 64)
    twice = post(client, upload("more.txt", b"z"), replace="true", status=422)
    assert "Several files" in twice[0]["error"]["message"]
    clash = post(client, upload("plan.txt", b"m"), replace="true", status=422)
    assert clash[0]["error"]["message"] == "The store has these bytes already, as “more.txt”."
    assert default_storage.open(models.File.objects.get(pk=row.pk).content.name).read() == b"new!"


def test_an_encoding_holds_for_new_files_and_for_those_that_are_replaced(
    client: KeyClient, django_capture_on_commit_callbacks: Any
) -> None:
    first = post(client, upload("plan.txt", "旧".encode("gb18030")), encoding="GB18030")[0]
    row = models.File.objects.get(pk=first["file"]["id"])
    assert row.encoding_override == "gb18030"
    with django_capture_on_commit_callbacks(execute=True):
        post(client, upload("plan.txt", "新".encode("big5")), replace="true", encoding="big5")
    row.refresh_from_db()
    assert row.encoding_override == "big5hkscs"
    post(client, upload("plan.txt", "新".encode("big5")), replace="true", status=200)
    row.refresh_from_db()
    assert row.encoding_override == "big5hkscs"


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"files": []}, "files"),
        ({"store": ""}, "store"),
        ({"metadata": "{"}, "metadata"),
        ({"metadata": "[1]"}, "metadata"),
        ({"metadata": '{"a": "\\u0000"}'}, "metadata"),
        ({"metadata": '{"a": 1e999}'}, "metadata"),
        ({"content_type": "x" * 61}, "content_type"),
        ({"replace": "perhaps"}, "replace"),
        ({"encoding": "klingon"}, "encoding"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_forms_are_told_by_field(client: KeyClient, form: dict[str, Any], field: str) -> None:
    whole = {"store": "manuals", "files": [upload("a.txt", b"a")], **form}
    error = error_of(client.post("/api/files", whole), 400)
    assert list(error["fields"]) == [field]
    assert not models.File.objects.exists()


def test_an_upload_is_a_form(client: KeyClient) -> None:
    error_of(client.send("post", "/api/files", {"store": "manuals"}), 415)
    broken = client.post("/api/files", b"--x\r\n", content_type="multipart/form-data; boundary=")
    error_of(broken, 400)


def test_who_reads_uploads_nothing_and_strangers_do_not_see_the_store(store: Any) -> None:
    group = GroupFactory()
    store.reader_groups.add(group)
    reader = client_for(UserFactory(permissions=WRITER, groups=[group]))
    stranger = client_for(UserFactory(permissions=WRITER))
    for someone, status in ((reader, 403), (stranger, 404)):
        form = {"store": "manuals", "files": [upload("a.txt", b"a")]}
        error_of(someone.post("/api/files", form), status)
    assert not models.File.objects.exists()


def test_a_file_is_described_renamed_restricted_and_deleted(client: KeyClient, store: Any) -> None:
    staff = GroupFactory(name="staff")
    store.owner.groups.add(staff)
    file = FileFactory(store=store, name="a.txt")
    address = f"/api/files/{file.pk}"
    body = {
        "name": "b.txt",
        "content_type": "outline",
        "metadata": {"x": [1]},
        "restricted_to": ["staff"],
    }
    changed = ok(client.send("patch", address, body))
    assert body.items() <= changed.items()
    assert ok(client.send("patch", address, {"name": "../c.txt"}))["name"] == "c.txt"
    kept = ok(client.get(address))
    assert kept["metadata"] == {"x": [1]}
    assert kept["restricted_to"] == ["staff"]
    path = file.content.name
    assert client.delete(address).status_code == 204
    error_of(client.get(address), 404)
    assert path


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"status": "completed"}, "status"),
        ({"metadata": "x"}, "metadata"),
        ({"name": ""}, "name"),
        ({"restricted_to": ["strangers"]}, "restricted_to"),
        ({"content": "x"}, "content"),
        ({"store": 1}, "store"),
    ],
)
def test_bad_changes_are_told_by_field(
    client: KeyClient, store: Any, body: dict[str, Any], field: str
) -> None:
    GroupFactory(name="strangers")
    file = FileFactory(store=store)
    error = error_of(client.send("patch", f"/api/files/{file.pk}", body), 400)
    assert list(error["fields"]) == [field]


def test_restricted_files_are_not_there_for_others(store: Any) -> None:
    readers, few = GroupFactory(), GroupFactory()
    store.reader_groups.add(readers)
    store.is_public = True
    store.save()
    file = FileFactory(store=store, restricted=[few])
    publish(file, "secret words")
    reader = client_for(UserFactory(permissions=WRITER, groups=[readers]))
    one_of_few = client_for(UserFactory(permissions=WRITER, groups=[readers, few]))
    address = f"/api/files/{file.pk}"
    for end in ("", "/text", "/original"):
        error_of(reader.get(address + end), 404)
        assert one_of_few.get(address + end).status_code == 200
    assert ok(reader.get("/api/chunks"))["results"] == []
    assert ok(reader.get("/api/files"))["results"] == []
    error_of(reader.delete(address), 404)
    error_of(one_of_few.delete(address), 403)


def test_an_original_comes_once_and_in_parts(client: KeyClient, store: Any) -> None:
    file = FileFactory(store=store)
    address = f"/api/files/{file.pk}/original"
    whole = client.get(address)
    etag, there = whole["ETag"], b"".join(whole)
    assert etag == f'"{file.sha256}"' and whole["Accept-Ranges"] == "bytes"
    assert client.get(address, headers={"if-none-match": etag}).status_code == 304
    part = client.get(address, headers={"range": "bytes=4-7"})
    assert (part.status_code, b"".join(part)) == (206, there[4:8])
    assert part["Content-Range"] == "bytes 4-7/12" and part["Content-Length"] == "4"
    other = {"range": "bytes=4-7", "if-range": '"another"'}
    assert b"".join(client.get(address, headers=other)) == there
    error_of(client.get(address, headers={"range": "bytes=12-"}), 416)


def test_the_original_comes_as_a_download_only(client: KeyClient, store: Any) -> None:
    file = FileFactory(store=store, name='é"<b>\n员工.html')
    response = client.get(f"/api/files/{file.pk}/original")
    assert b"".join(response) == b"the original"
    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Disposition"].startswith("attachment; filename")
    assert "\n" not in response["Content-Disposition"]
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"] == "sandbox"
    assert response["Content-Length"] == "12"
    head = client.head(f"/api/files/{file.pk}/original")
    assert (head.status_code, head["Content-Length"], head.content) == (200, "12", b"")
    default_storage.delete(file.content.name)
    assert "are missing" in error_of(client.get(f"/api/files/{file.pk}/original"), 404)["message"]


def test_the_text_comes_in_windows(client: KeyClient, store: Any, monkeypatch: Any) -> None:
    file = FileFactory(store=store)
    publish(file, "泵每年检修一次。", "Second page 😀.")
    whole = "泵每年检修一次。\fSecond page 😀."
    address = f"/api/files/{file.pk}/text"
    told = ok(client.get(address))
    assert told == {
        "file": file.pk,
        "revision": 1,
        "start": 0,
        "end": len(whole),
        "length": len(whole),
        "text": whole,
    }
    part = ok(client.get(f"{address}?start=9&end=15"))
    assert (part["text"], part["end"]) == (whole[9:15], 15)
    assert ok(client.get(f"{address}?start=9&end=3"))["text"] == ""
    for beyond in (5000, 2**31 - 2):
        assert ok(client.get(f"{address}?start={beyond}"))["text"] == ""
    monkeypatch.setattr("rag.api.resources.files.WINDOW", 4)
    assert ok(client.get(f"{address}?end=10"))["text"] == whole[:4]
    for query in (f"start={2**31 - 1}", "start=-1", "start=x", "from=1", "end=99999999999"):
        assert error_of(client.get(f"{address}?{query}"), 400)["fields"]


def test_lists_are_filtered(client: KeyClient, store: Any) -> None:
    one = FileFactory(store=store, name="Pump.txt", metadata={"lang": "zh", "tags": ["a"]})
    two = FileFactory(
        store=StoreFactory(owner=store.owner, slug="other"),
        name="valve.txt",
        kind="pdf",
        status="error",
        content_type="outline",
        metadata={"lang": "en"},
    )
    FileFactory(store=StoreFactory(owner=UserFactory()))

    def ids(query: str) -> list[int]:
        return [row["id"] for row in ok(client.get(f"/api/files?{query}"))["results"]]

    assert ids("") == [one.pk, two.pk]
    assert ids("ordering=-name") == [two.pk, one.pk]
    assert ids("store=other") == [two.pk]
    assert ids(f"store={store.pk}") == [one.pk]
    assert ids("status=error") == ids("kind=pdf") == ids("content_type=outline") == [two.pk]
    assert ids("name=PUMP") == [one.pk]
    assert ids('metadata={"tags":["a"]}') == [one.pk]
    assert ids('metadata={"lang":"fr"}') == []
    error_of(client.get("/api/files?store=none"), 404)
    for query, field in [
        ("sttaus=error", "sttaus"),
        ("status=lost", "status"),
        ("ordering=sha256", "ordering"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("metadata=[]", "metadata"),
        ('metadata={"a":"\\u0000"}', "metadata"),
        ("name=a%00b", "name"),
        ("cursor=zz", "cursor"),
    ]:
        assert list(error_of(client.get(f"/api/files?{query}"), 400)["fields"]) == [field]


def test_what_went_wrong_with_a_file_is_told_in_the_reader_s_language(store: Any) -> None:
    error = DocumentError("“{name}” holds no text.", hint="Upload one with text.", name="a.txt")
    warning = DocumentError("“{name}” holds no text.", name="a.txt").as_dict()
    file = FileFactory(store=store, status="error", error=error.as_dict(), warnings=[warning])
    told = ok(client_for(store.owner).get(f"/api/files/{file.pk}"))
    assert told["error"]["message"] == "“a.txt” holds no text."
    assert told["warnings"] == ["“a.txt” holds no text."]
    chinese = ok(client_for(store.owner, language="zh-hans").get(f"/api/files/{file.pk}"))
    assert chinese["error"]["message"] not in ("", told["error"]["message"])
    assert "a.txt" in chinese["error"]["message"]
