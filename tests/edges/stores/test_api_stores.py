"""Stores by the API: made, read, changed and deleted, each by whom it may."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

from rag import models
from rag.core.plugins import PLUGINS
from tests.edges.admin_client import use_words_embedder
from tests.edges.api_client import WRITER, client_for, error_of, ok
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


def test_a_store_lives_from_post_to_delete(words: None) -> None:
    user = UserFactory(permissions=WRITER, groups=[GroupFactory(name="staff")])
    client = client_for(user)
    made = ok(
        client.send(
            "post",
            "/api/stores",
            {
                "name": "Manuals",
                "slug": "manuals",
                "max_tokens_per_chunk": 300,
                "reader_groups": ["staff"],
                "retrieval": {"top_k": 7},
                "vocabulary": {"product": ["HX-400"]},
                "cache_ttl_s": 60,
            },
        ),
        201,
    )
    assert made["owner"] == user.username
    assert made["embedding_model"] == "words:64"
    assert made["resource_name"].startswith("fileSearchStores/")
    store = models.Store.objects.get(pk=made["id"])
    assert store.retrieval_settings.top_k == 7
    assert (store.vocabulary, store.cache_ttl_s) == ({"product": ["HX-400"]}, 60)
    assert [group.name for group in store.reader_groups.all()] == ["staff"]
    assert ok(client.get("/api/stores/manuals")) == made
    changes = {"display_name": "手册", "is_public": True, "reader_groups": []}
    changed = ok(client.send("patch", "/api/stores/manuals", changes))
    assert changed.pop("files_queued") == 0
    assert changed["updated_at"] > made["updated_at"]
    assert {**made, **changes, "updated_at": changed["updated_at"]} == changed
    assert ok(client.get(f"/api/stores/{made['id']}")) == changed
    assert client.delete("/api/stores/manuals").status_code == 204
    error_of(client.get("/api/stores/manuals"), 404)
    assert not models.Store.objects.exists()


def test_slugs_may_be_chinese() -> None:
    store = StoreFactory(owner=UserFactory(), name="手册", slug="手册")
    assert ok(client_for(store.owner).get("/api/stores/手册"))["id"] == store.pk


def test_who_reads_may_not_change_and_who_may_not_read_sees_nothing() -> None:
    group = GroupFactory()
    store = StoreFactory(owner=UserFactory(), readers=[group])
    reader = client_for(UserFactory(permissions=WRITER, groups=[group]))
    stranger = client_for(UserFactory(permissions=WRITER))
    for address in (f"/api/stores/{store.pk}", f"/api/stores/{store.slug}"):
        assert ok(reader.get(address))["id"] == store.pk
        error_of(stranger.get(address), 404)
        for method in ("patch", "delete"):
            assert "You may read" in error_of(reader.send(method, address, {}), 403)["message"]
            assert error_of(stranger.send(method, address, {}), 404)["code"] == "not_found"
    assert ok(stranger.get("/api/stores"))["results"] == []
    assert models.Store.objects.filter(pk=store.pk).exists()


def test_the_permissions_of_the_admin_hold_here_too(words: None) -> None:
    user = UserFactory()
    store = StoreFactory(owner=user)
    client = client_for(user)
    ok(client.get(f"/api/stores/{store.pk}"))
    wanted = [
        ("post", "/api/stores", "add_store"),
        ("patch", f"/api/stores/{store.pk}", "change_store"),
        ("delete", f"/api/stores/{store.pk}", "delete_store"),
    ]
    for method, address, permission in wanted:
        error = error_of(client.send(method, address, {"name": "x"}), 403)
        assert error["params"] == {"permission": permission}


def test_a_limited_key_reads_its_stores_and_makes_none(words: None) -> None:
    boss = UserFactory(is_superuser=True)
    mine, other = StoreFactory(), StoreFactory(is_public=True)
    client = client_for(boss, stores=[mine])
    assert [row["id"] for row in ok(client.get("/api/stores"))["results"]] == [mine.pk]
    error_of(client.get(f"/api/stores/{other.pk}"), 404)
    error_of(client.delete(f"/api/stores/{other.pk}"), 404)
    assert "limited" in error_of(client.send("post", "/api/stores", {"name": "x"}), 403)["message"]
    ok(client.send("patch", f"/api/stores/{mine.pk}", {"display_name": "x"}))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": " "}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "x", "slug": "a b"}, "slug"),
        ({"name": "x", "max_tokens_per_chunk": 49}, "max_tokens_per_chunk"),
        ({"name": "x", "max_tokens_per_chunk": "many"}, "max_tokens_per_chunk"),
        ({"name": "x", "max_overlap_tokens": 101}, "max_overlap_tokens"),
        ({"name": "x", "cache_ttl_s": -1}, "cache_ttl_s"),
        ({"name": "x", "cache_ttl_s": 10**30}, "cache_ttl_s"),
        ({"name": "x", "retrieval": {"top_k": 0}}, "retrieval"),
        ({"name": "x", "retrieval": {"topk": 1}}, "retrieval"),
        ({"name": "x", "retrieval": []}, "retrieval"),
        ({"name": "x", "vocabulary": {"product": "HX"}}, "vocabulary.product"),
        ({"name": "x", "reader_groups": ["no such"]}, "reader_groups"),
        ({"name": "x", "reader_groups": [["a"]]}, "reader_groups"),
        ({"name": "x", "colour": "red"}, "colour"),
        ({"name": "x", "owner": "boss"}, "owner"),
        ({"name": "x", "id": 7}, "id"),
    ],
)
def test_bad_values_are_told_by_field(words: None, body: dict[str, Any], field: str) -> None:
    client = client_for(UserFactory(permissions=WRITER))
    error = error_of(client.send("post", "/api/stores", body), 400)
    assert list(error["fields"]) == [field]
    assert all(error["fields"][field])
    assert not models.Store.objects.exists()


def test_a_model_that_nobody_knows_is_told_with_the_known_ones(words: None) -> None:
    client = client_for(UserFactory(permissions=WRITER))
    body = {"name": "x", "embedding_model": "nobody:x"}
    error = error_of(client.send("post", "/api/stores", body), 400)
    assert error["code"] == "unknown_name"
    assert error["params"]["known"] == ", ".join(sorted(PLUGINS.names("embedding")))


def test_the_model_of_a_store_is_fixed() -> None:
    store = StoreFactory(owner=UserFactory(permissions=WRITER))
    client = client_for(store.owner)
    body = {"embedding_model": "e5:multilingual-e5-small"}
    error = error_of(client.send("patch", f"/api/stores/{store.pk}", body), 400)
    assert error["fields"] == {"embedding_model": ["This cannot be set."]}


def test_a_name_that_is_taken_is_a_conflict(words: None) -> None:
    store = StoreFactory(owner=UserFactory(permissions=WRITER))
    theirs = StoreFactory(name="Theirs", slug="theirs")
    client = client_for(store.owner)
    error_of(client.send("post", "/api/stores", {"name": "Theirs"}), 409)
    for body in ({"name": "Theirs"}, {"slug": "theirs"}):
        assert (
            error_of(client.send("patch", f"/api/stores/{store.pk}", body), 409)["code"]
            == "conflict"
        )
    ok(client.send("patch", f"/api/stores/{store.pk}", {"name": store.name, "slug": store.slug}))
    assert models.Store.objects.get(pk=theirs.pk).name == "Theirs"


def test_only_one_s_own_groups_can_be_chosen_and_others_stay() -> None:
    mine, theirs = GroupFactory(name="mine"), GroupFactory(name="theirs")
    user = UserFactory(permissions=WRITER, groups=[mine])
    store, other = StoreFactory(owner=user, readers=[theirs]), StoreFactory(owner=user)
    client = client_for(user)
    both = {"reader_groups": ["mine", "theirs"]}
    assert (
        ok(client.send("patch", f"/api/stores/{store.pk}", both))["reader_groups"]
        == both["reader_groups"]
    )
    error_of(client.send("patch", f"/api/stores/{other.pk}", both), 400)
    seer = UserFactory(permissions=[*WRITER, "view_group"], groups=[mine])
    other.editor_groups.add(mine)
    ok(client_for(seer).send("patch", f"/api/stores/{other.pk}", both))


def test_deleting_a_store_takes_its_files_along() -> None:
    file = FileFactory(store=StoreFactory(owner=UserFactory(permissions=WRITER)))
    client = client_for(file.store.owner)
    assert client.delete(f"/api/stores/{file.store.slug}").status_code == 204
    assert not models.File.objects.exists()


@pytest.mark.parametrize(
    "name", ["0", "9" * 18, "9" * 40, "none", "a%00b", "%F0%9F%92%A9", "..", "١"]
)
def test_an_address_of_no_store_is_404(name: str) -> None:
    client = client_for(UserFactory(is_superuser=True))
    error_of(client.get(f"/api/stores/{name}"), 404)


def test_lists_are_filtered_and_ordered() -> None:
    user = UserFactory()
    for name in ("Beta manuals", "alpha", "Gamma manuals"):
        StoreFactory(owner=user, name=name)
    client = client_for(user)

    def names(query: str) -> list[str]:
        return [row["name"] for row in ok(client.get(f"/api/stores?{query}"))["results"]]

    assert names("name=MANUALS&ordering=-name") == ["Gamma manuals", "Beta manuals"]
    assert len(names("ordering=name")) == 3
    assert names("name=none") == []


def test_a_list_asks_a_fixed_number_of_queries(django_assert_max_num_queries: Any) -> None:
    user, groups = UserFactory(), [GroupFactory(), GroupFactory()]
    for _ in range(10):
        StoreFactory(owner=user, readers=groups, editors=groups)
    client = client_for(user)
    with django_assert_max_num_queries(6):
        assert len(ok(client.get("/api/stores"))["results"]) == 10


@pytest.mark.parametrize("name", ["\ud800", "a\udfffb"])
def test_a_made_up_cursor_with_half_a_character_is_a_field_error(name: str) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps(["name", name, 1]).encode()).decode()
    answer = client_for(UserFactory()).get(f"/api/stores?ordering=name&cursor={cursor}")
    assert list(error_of(answer, 400)["fields"]) == ["cursor"]


@pytest.mark.parametrize(
    "retrieval",
    [
        {"top_k": 12.5},
        {"content_types": "manual"},
        {"content_types": [3]},
        {"metadata": "lang"},
        {"context_type": "fancy"},
        {"rerank_top_k": None},
    ],
)
def test_settings_that_no_search_would_accept_are_not_kept(retrieval: Any) -> None:
    store = StoreFactory(owner=UserFactory(permissions=WRITER))
    client = client_for(store.owner)
    answer = client.send("patch", f"/api/stores/{store.pk}", {"retrieval": retrieval})
    assert list(error_of(answer, 400)["fields"]) == ["retrieval"]
    store.refresh_from_db()
    assert store.retrieval == {}


def test_a_slug_is_found_for_every_name(words: None) -> None:
    client = client_for(UserFactory(permissions=WRITER))
    slugs = [
        ok(client.send("post", "/api/stores", {"name": name}), 201)["slug"]
        for name in ("A", "B", "A!")
    ]
    # Chance letters: how many stores there are, and whose name it is, is not told.
    assert slugs[:2] == ["a", "b"] and re.fullmatch("a-[0-9a-f]{6}", slugs[2])
    assert client.delete("/api/stores/b").status_code == 204
    assert ok(client.send("post", "/api/stores", {"name": "A?"}), 201)["slug"] not in (
        "a",
        slugs[2],
    )
    assert error_of(client.send("post", "/api/stores", {"name": "A?"}), 409)
