"""Chunks by the API, and pages of long lists: none is lost and none comes twice."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag import models
from rag.core.types import RetrievalSettings
from rag.services.chunks import find as find_chunks
from tests.edges.admin_client import use_words_embedder
from tests.edges.api_client import WRITER, client_for, error_of, ok
from tests.factories import (
    ChunkFactory,
    FileFactory,
    GroupFactory,
    StoreFactory,
    UserFactory,
    publish,
)
from tests.index_hits import index_hits

pytestmark = pytest.mark.django_db


@pytest.fixture
def file() -> Any:
    return FileFactory(store=StoreFactory(owner=UserFactory(permissions=WRITER)))


def test_a_chunk_is_a_span_of_its_file_s_text(file: Any) -> None:
    chunks = publish(file, "泵每年检修一次。", "The valve closes by itself.")
    client = client_for(file.store.owner)
    told = ok(client.get(f"/api/chunks/{chunks[1].pk}"))
    assert told["text"] == "The valve closes by itself."
    assert (told["file"], told["store"], told["page_first"]) == (file.pk, file.store_id, 2)
    span = f"start={told['char_start']}&end={told['char_end']}"
    assert ok(client.get(f"/api/files/{file.pk}/text?{span}"))["text"] == told["text"]


def test_a_chunk_that_is_switched_off_is_found_no_more(
    file: Any, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> None:
    use_words_embedder(monkeypatch, settings)
    chunk = publish(file, "the pump is serviced yearly")[0]
    client = client_for(file.store.owner)

    def found() -> list[Any]:
        scope = client_scope(file.store.owner)
        return [
            hit.chunk_id for hit in index_hits(query="pump", scope=scope, stores=[file.store]).hits
        ]

    assert found() == [chunk.pk]
    address = f"/api/chunks/{chunk.pk}"
    assert ok(client.send("patch", address, {"enabled": False}))["enabled"] is False
    assert found() == []
    assert ok(client.send("patch", address, {"enabled": True}))["enabled"] is True
    assert found() == [chunk.pk]
    assert ok(client.send("patch", address, {}))["enabled"] is True


def client_scope(user: Any) -> Any:
    from rag.services.access.api_keys import scope_of

    return scope_of(user)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"ordinal": 1}, "ordinal"),
        ({"text": "x", "origin": "parsed"}, "origin"),
        ({"text": 1500}, "text"),
        ({"enabled": 0}, "enabled"),
        ({"text": None}, "text"),
        ({"text": "x", "seen_revision": 0}, "seen_revision"),
        ({"enabled": "perhaps"}, "enabled"),
        ({"enabled": None}, "enabled"),
        ({"x": 1}, "x"),
    ],
)
def test_nothing_else_of_a_chunk_can_be_changed(file: Any, body: Any, field: str) -> None:
    chunk = ChunkFactory(file=file)
    client = client_for(file.store.owner)
    error = error_of(client.send("patch", f"/api/chunks/{chunk.pk}", body), 400)
    assert list(error["fields"]) == [field]


@pytest.fixture
def writer(file: Any, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> Any:
    use_words_embedder(monkeypatch, settings)
    more = Permission.objects.filter(codename__in=("add_chunk", "delete_chunk"))
    file.store.owner.user_permissions.add(*more)
    return client_for(file.store.owner)


def hits(file: Any, query: str) -> list[Any]:
    scope = client_scope(file.store.owner)
    chosen = RetrievalSettings(mode="keyword")
    found = index_hits(query=query, scope=scope, stores=[file.store], settings=chosen)
    return [hit.chunk_id for hit in found.hits]


def test_a_chunk_s_text_is_changed_and_found(file: Any, writer: Any) -> None:
    chunk = publish(file, "the pump is serviced yearly")[0]
    address = f"/api/chunks/{chunk.pk}"
    told = ok(writer.send("patch", address, {"text": "a lonely quasar\n", "seen_revision": 1}))
    assert (told["text"], told["revision"], told["origin"]) == ("a lonely quasar", 2, "edited")
    assert (hits(file, "quasar"), hits(file, "serviced")) == ([chunk.pk], [])
    error = error_of(writer.send("patch", address, {"text": "late", "seen_revision": 1}), 409)
    assert error["params"] == {"now": "2", "seen": "1"}
    for blank in ("", " \n", "\0\ud800"):
        error_of(writer.send("patch", address, {"text": blank}), 400)
    assert (
        error_of(writer.send("patch", address, {"text": "word " * 501}), 413)["params"]["n"]
        == "501"
    )
    told = ok(writer.send("patch", address, {"text": "third", "enabled": False}))
    assert (told["text"], told["revision"], told["enabled"]) == ("third", 3, False)
    revision = models.ChunkRevision.objects.get(chunk=chunk, revision=2)
    assert revision.replaced_by == file.store.owner


def test_chunks_are_added_and_deleted(file: Any, writer: Any) -> None:
    chunk = publish(file, "the pump is serviced yearly", "the valve")[0]
    body = {"file": file.pk, "text": "a lonely quasar", "after": chunk.pk}
    told = ok(writer.send("post", "/api/chunks", body), 201)
    assert (told["origin"], told["char_start"], told["char_end"]) == (
        "added",
        chunk.char_end,
        chunk.char_end,
    )
    assert hits(file, "quasar") == [told["id"]]
    first = ok(writer.send("post", "/api/chunks", {"file": file.pk, "text": "at the top"}), 201)
    assert (first["char_start"], first["page_first"]) == (0, 1)
    assert ok(writer.delete(f"/api/chunks/{told['id']}"), 204) is None
    assert hits(file, "quasar") == []
    error_of(writer.get(f"/api/chunks/{told['id']}"), 404)
    error_of(writer.send("post", "/api/chunks", {**body, "after": told["id"]}), 400)
    assert set(error_of(writer.send("post", "/api/chunks", {}), 400)["fields"]) == {"file", "text"}
    error_of(writer.send("post", "/api/chunks", {"file": 999_999_999, "text": "x"}), 404)


def test_who_lacks_the_permission_neither_adds_nor_deletes(file: Any) -> None:
    chunk = publish(file, "text")[0]
    client = client_for(file.store.owner)
    body = {"file": file.pk, "text": "x"}
    assert error_of(client.send("post", "/api/chunks", body), 403)["params"] == {
        "permission": "add_chunk"
    }
    error_of(client.delete(f"/api/chunks/{chunk.pk}"), 403)
    group = GroupFactory()
    file.store.reader_groups.add(group)
    reader = client_for(
        UserFactory(permissions=(*WRITER, "add_chunk", "delete_chunk"), groups=[group])
    )
    error_of(reader.send("post", "/api/chunks", body), 403)
    error_of(reader.delete(f"/api/chunks/{chunk.pk}"), 403)
    error_of(reader.send("patch", f"/api/chunks/{chunk.pk}", {"text": "x"}), 403)
    assert models.Chunk.objects.get().text == "text"


def test_who_reads_may_not_switch_and_strangers_see_nothing(file: Any) -> None:
    group = GroupFactory()
    file.store.reader_groups.add(group)
    address = f"/api/chunks/{ChunkFactory(file=file).pk}"
    reader = client_for(UserFactory(permissions=WRITER, groups=[group]))
    ok(reader.get(address))
    error_of(reader.send("patch", address, {"enabled": False}), 403)
    stranger = client_for(UserFactory(permissions=WRITER))
    error_of(stranger.get(address), 404)
    error_of(stranger.send("patch", address, {"enabled": False}), 404)


def test_lists_are_filtered(file: Any) -> None:
    one = ChunkFactory(file=file, ordinal=5, text="The pump runs")
    two = ChunkFactory(
        file=file, ordinal=2, text="the valve", enabled=False, content_type="outline"
    )
    old = ChunkFactory(file=file, ordinal=2, is_live=False)
    other = ChunkFactory(file=FileFactory(store=StoreFactory(owner=file.store.owner, slug="other")))
    client = client_for(file.store.owner)

    def ids(query: str) -> list[int]:
        return [row["id"] for row in ok(client.get(f"/api/chunks?{query}"))["results"]]

    assert ids("") == [one.pk, two.pk, other.pk]
    assert ids(f"file={file.pk}&ordering=ordinal") == [two.pk, one.pk]
    assert ids(f"file={file.pk}&ordering=-ordinal") == [one.pk, two.pk]
    assert ids("is_live=false") == [old.pk]
    assert ids("enabled=false") == ids("content_type=outline") == [two.pk]
    assert ids("enabled=true") == [one.pk, other.pk]
    assert ids("store=other") == [other.pk]
    assert ids("words=PUMP runs") == [one.pk]
    assert ids("words=pump valve") == []
    assert list(error_of(client.get("/api/chunks?ordering=ordinal"), 400)["fields"]) == ["ordering"]
    for query in ("file=0", "file=x", f"file={2**63}", "enabled=perhaps", "words=a%00"):
        error_of(client.get(f"/api/chunks?{query}"), 400)


@pytest.mark.parametrize("ordering", ["id", "-id", "ordinal"])
@pytest.mark.parametrize("read_up_to", [0, 100])
def test_pages_of_a_word_hold_each_chunk_once_in_order(
    file: Any, monkeypatch: pytest.MonkeyPatch, ordering: str, read_up_to: int
) -> None:
    monkeypatch.setattr(find_chunks, "READ_UP_TO", read_up_to)
    publish(file, *(f"{('pump', 'valve')[n % 2]} number {n}" for n in range(14)))
    publish(FileFactory(store=StoreFactory()), "the pump of somebody else")
    client, seen = client_for(file.store.owner), list[str]()
    address = f"/api/chunks?words=pump&limit=3&file={file.pk}&ordering={ordering}"
    while address:
        page = ok(client.get(address))
        seen += [row["text"] for row in page["results"]]
        address = page["next"]
    wanted = [f"pump number {n}" for n in range(0, 14, 2)]
    assert seen == (wanted[::-1] if ordering == "-id" else wanted)
    # What was replaced is in no index, and found all the same.
    publish(file, "another text")
    rows = ok(client.get("/api/chunks?words=pump&is_live=false&limit=50"))["results"]
    assert sorted(row["text"] for row in rows) == sorted(wanted)


@pytest.mark.parametrize(
    "ordering", ["id", "-id", "name", "-name", "size", "-created_at", "updated_at"]
)
@pytest.mark.parametrize("limit", [1, 3, 7])
def test_pages_hold_every_row_once_also_where_values_are_equal(ordering: str, limit: int) -> None:
    store = StoreFactory(owner=UserFactory())
    now = timezone.now()
    for n in range(10):
        FileFactory(store=store, name=f"文件 {n % 3}", size=n % 2, sha256=f"{n:064}")
    models.File.objects.filter(size=0).update(created_at=now, updated_at=now)
    client = client_for(store.owner)
    address, seen, n_pages = f"/api/files?ordering={ordering}&limit={limit}", [], 0
    while address:
        page = ok(client.get(address))
        seen += [row["id"] for row in page["results"]]
        address, n_pages = page["next"], n_pages + 1
        assert len(page["results"]) <= limit
    name = ordering.lstrip("-")
    order = [ordering] if name == "id" else [ordering, "-id" if ordering[0] == "-" else "id"]
    assert seen == list(models.File.objects.order_by(*order).values_list("pk", flat=True))
    assert n_pages == -(-10 // limit)


def test_rows_that_come_and_go_between_pages_move_no_other() -> None:
    store = StoreFactory(owner=UserFactory())
    files = [FileFactory(store=store) for _ in range(6)]
    client = client_for(store.owner)
    first = ok(client.get("/api/files?limit=3"))
    files[0].delete()
    files[2].delete()
    FileFactory(store=store)
    second = ok(client.get(first["next"]))
    assert [row["id"] for row in second["results"]] == [files[3].pk, files[4].pk, files[5].pk]


def test_a_cursor_of_another_list_is_refused() -> None:
    store = StoreFactory(owner=UserFactory())
    for _ in range(3):
        FileFactory(store=store)
    client = client_for(store.owner)
    following = ok(client.get("/api/files?limit=1&ordering=name"))["next"]
    error = error_of(client.get(following.replace("ordering=name", "ordering=size")), 400)
    assert error["fields"] == {"cursor": ["The cursor does not belong to this list."]}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.text(max_size=60) | st.text("abcdef0123456789-_=W", max_size=60))
def test_a_made_up_cursor_is_a_field_error(cursor: str) -> None:
    from django.contrib.auth.models import User

    user = User.objects.filter(username="pages").first() or UserFactory(username="pages")
    client = client_for(user)
    response = client.get("/api/files", {"cursor": cursor, "ordering": "created_at"})
    assert response.status_code == (200 if not cursor else 400) or "cursor" not in response.json()


@pytest.mark.parametrize(
    "content",
    [
        '["id"]',
        '{"a":1}',
        '["id","x","y"]',
        '["id",1,true]',
        '["id",1,1e999]',
        f'["id",1,{2**70}]',
        f'["id",{2**70},1]',
        '["name","a",1]',
        "[" * 5000,
        '["id",null,1]',
    ],
)
def test_a_forged_cursor_is_a_field_error(content: str) -> None:
    import base64

    cursor = base64.urlsafe_b64encode(content.encode()).decode()
    response = client_for(UserFactory()).get("/api/files", {"cursor": cursor[:1999]})
    assert list(error_of(response, 400)["fields"]) == ["cursor"]


@pytest.mark.parametrize(
    ("ordering", "value"),
    [
        ("id", "Infinity"),
        ("size", "-Infinity"),
        ("size", "NaN"),
        ("size", "1e300"),
        ("created_at", '"0001-01-01T00:00:00+23:59"'),
        ("-created_at", '"9999-12-31T23:59-23:59"'),
    ],
)
def test_a_cursor_with_what_no_column_holds_is_a_field_error(ordering: str, value: str) -> None:
    import base64

    cursor = base64.urlsafe_b64encode(f'["{ordering}",{value},1]'.encode()).decode()
    asked = {"cursor": cursor, "ordering": ordering}
    response = client_for(UserFactory()).get("/api/files", asked)
    assert list(error_of(response, 400)["fields"]) == ["cursor"]


def test_a_cursor_s_time_means_the_same_in_every_zone() -> None:
    import base64

    store = StoreFactory(owner=UserFactory())
    file = FileFactory(store=store)
    client = client_for(store.owner)
    for value, found in (("2020-01-01T00:00:00+23:59", [file.pk]), ("2999-12-31T00:00:00", [])):
        cursor = base64.urlsafe_b64encode(f'["created_at","{value}",0]'.encode()).decode()
        page = ok(client.get("/api/files", {"cursor": cursor, "ordering": "created_at"}))
        assert [row["id"] for row in page["results"]] == found
