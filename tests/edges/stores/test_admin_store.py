"""Stores in the admin: made with defaults, explained, changed, deleted, and their own page."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.errors import ProviderError
from rag.providers.sandbox.recognizer import SandboxedRecognizer
from rag.services.wiring import registry as wiring
from tests.edges.admin_client import at, client_of, page, post_action, use_words_embedder, words
from tests.factories import EDITOR, FileFactory, GroupFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def editor() -> Any:
    return UserFactory(permissions=EDITOR)


def form(**values: Any) -> dict[str, Any]:
    fields = {"name": "Handbooks", "max_tokens_per_chunk": 200, "max_overlap_tokens": 20}
    return {**fields, "embedding_model": "", **values}


def errors(client: Client, **values: Any) -> dict[str, list[str]]:
    response = client.post(at("rag_store_add"), form(**values))
    assert response.status_code == 200
    return dict(response.context["adminform"].form.errors)


def test_the_form_offers_defaults_and_explains_them(editor: Any) -> None:
    shown = page(client_of(editor), "rag_store_add")
    text = words(shown)
    assert 'name="max_tokens_per_chunk" value="200"' in shown
    assert 'name="max_overlap_tokens" value="20"' in shown
    assert "50 to 500 tokens" in text
    assert "0 to 100 tokens that a chunk repeats" in text
    assert "A chunk is the piece of text that is found and cited." in text
    assert 'placeholder="words:64"' in shown


def test_the_explanations_are_chinese_for_a_chinese_reader(editor: Any) -> None:
    text = words(page(client_of(editor, "zh-CN"), "rag_store_add"))
    assert "分块大小" in text
    assert "重叠" in text
    assert "50 to 500" not in text


def test_a_new_store_stands_on_the_configured_space_and_belongs_to_its_maker(editor: Any) -> None:
    group = GroupFactory()
    editor.groups.add(group)
    response = client_of(editor).post(at("rag_store_add"), form(reader_groups=[group.pk]))
    assert response.status_code == 302, response.context["errors"]
    store = models.Store.objects.get()
    assert (store.name, store.slug, store.owner) == ("Handbooks", "handbooks", editor)
    assert (store.space.model, store.max_tokens_per_chunk) == ("words:64", 200)
    assert list(store.reader_groups.all()) == [group]
    assert store.display_name == "Handbooks"


def test_a_chinese_name_gets_a_chinese_slug(editor: Any) -> None:
    client_of(editor).post(at("rag_store_add"), form(name="员工手册"))
    assert models.Store.objects.get().slug == "员工手册"


@pytest.mark.parametrize(
    ("values", "field", "part"),
    [
        ({"name": ""}, "name", "required"),
        ({"max_tokens_per_chunk": 49}, "max_tokens_per_chunk", "50"),
        ({"max_tokens_per_chunk": 501}, "max_tokens_per_chunk", "500"),
        ({"max_overlap_tokens": 101}, "max_overlap_tokens", "100"),
        ({"embedding_model": "nonsense"}, "embedding_model", "provider:model"),
        ({"embedding_model": "none:such"}, "embedding_model", "provider “none”. Known: "),
        ({"retrieval-mode": "psychic"}, "retrieval", "Search: Select a valid choice"),
        ({"retrieval-top_k": 0}, "retrieval", "Top K: Ensure this value is greater"),
        ({"retrieval-metadata": "[1]"}, "retrieval", "Files with this metadata: Write a JSON"),
        ({"retrieval-vector_weight": 0, "retrieval-bm25_weight": 0}, "retrieval", "both 0"),
    ],
)
def test_what_a_store_cannot_be_is_said_beside_its_field(
    editor: Any, values: dict[str, Any], field: str, part: str
) -> None:
    said = errors(client_of(editor), **values)
    assert list(said) == [field]
    assert part in said[field][0]
    assert not models.Store.objects.exists()


def test_a_model_that_fails_is_an_error_of_the_form(
    editor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str = "") -> None:
        raise ProviderError("{host} does not answer.", hint="Start it.", host="the model's server")

    monkeypatch.setattr(wiring, "embedder", fail)
    said = errors(client_of(editor))
    assert said == {"embedding_model": ["the model's server does not answer. Start it."]}


def test_a_name_that_is_taken_is_refused(editor: Any) -> None:
    StoreFactory(name="Handbooks")
    assert "already exists" in errors(client_of(editor))["name"][0]


def test_an_overlap_that_would_swallow_the_chunk_is_kept_with_a_notice(editor: Any) -> None:
    values = form(max_tokens_per_chunk=50, max_overlap_tokens=100)
    response = client_of(editor).post(at("rag_store_add"), values, follow=True)
    assert "An overlap of 100 would swallow chunks of 50: 22 is used." in response.content.decode()


@pytest.mark.parametrize("is_installed", [True, False])
def test_ocr_is_a_switch_that_says_what_it_lacks(
    is_installed: bool, editor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SandboxedRecognizer, "is_installed", lambda self: is_installed)
    store = StoreFactory(owner=editor)
    response = client_of(editor).post(
        at("rag_store_change", store.pk),
        form(name=store.name, slug=store.slug, ocr="on", retrieval="{}"),
        follow=True,
    )
    text = words(response.content.decode())
    store.refresh_from_db()
    assert store.ocr and "are read when the store is indexed again" in text
    assert ("pip install rapidocr==3.10.0" in text) != is_installed


def test_changed_settings_are_saved_and_only_those(editor: Any) -> None:
    store = StoreFactory(owner=editor)
    models.Store.objects.filter(pk=store.pk).update(n_chunks=77)
    values = form(name="New name", slug="new", max_tokens_per_chunk=300, is_public="on")
    response = client_of(editor).post(at("rag_store_change", store.pk), values, follow=True)
    store.refresh_from_db()
    assert (store.name, store.max_tokens_per_chunk, store.is_public) == ("New name", 300, True)
    assert store.n_chunks == 77
    assert store.owner == editor
    assert "until their store is indexed again" in response.content.decode()


def opened(client: Client, store: models.Store) -> str:
    """Return what the form carries of what it showed."""
    found = re.search(r'name="seen" value="([^"]*)"', page(client, "rag_store_change", store.pk))
    assert found, "the form does not say what it showed"
    return html.unescape(found[1])


def test_the_second_of_two_who_save_is_told_what_the_first_one_changed(editor: Any) -> None:
    anna, group = UserFactory(is_superuser=True, username="anna"), GroupFactory(name="Readers")
    store = StoreFactory(owner=editor, name="Handbooks", slug="handbooks")
    first, second = client_of(anna), client_of(editor)
    seen = opened(second, store)
    hers = form(slug="handbooks", owner=editor.pk, max_tokens_per_chunk=300, is_public="on")
    more = {"reader_groups": [group.pk], "retrieval-mode": "keyword", "seen": opened(first, store)}
    assert first.post(at("rag_store_change", store.pk), {**hers, **more}).status_code == 302
    typed = form(slug="handbooks", max_tokens_per_chunk=150, display_name="Mine", seen=seen)
    refused = second.post(at("rag_store_change", store.pk), typed)
    assert refused.status_code == 200
    said = dict(refused.context["adminform"].form.errors)
    assert set(said) == {
        "max_tokens_per_chunk",
        "is_public",
        "reader_groups",
        "retrieval",
        "__all__",
    }
    assert said["__all__"][0].startswith("anna changed this meanwhile (")
    assert "from “200” to “300”; what you typed" in said["max_tokens_per_chunk"][0]
    assert "from “no” to “yes”, which stands here now" in said["is_public"][0]
    assert "from “–” to “Readers”, which" in said["reader_groups"][0]
    assert "to “Search: full-text search”, which" in said["retrieval"][0]
    store.refresh_from_db()
    assert (store.max_tokens_per_chunk, store.display_name) == (300, "")
    # Hers stands where nothing else was typed, so that saving again takes none of it back.
    shown = refused.content.decode()
    assert 'name="max_tokens_per_chunk" value="150"' in shown
    assert re.search(r'name="is_public"[^>]* checked', shown)
    assert re.search(rf'<option value="{group.pk}" selected>Readers', shown)
    assert '<option value="keyword" selected>' in shown
    assert words(shown).count("anna changed this meanwhile") == 1
    again = {**typed, "is_public": "on", "reader_groups": [group.pk], "retrieval-mode": "keyword"}
    again["seen"] = html.unescape(re.findall(r'name="seen" value="([^"]*)"', shown)[0])
    assert second.post(at("rag_store_change", store.pk), again).status_code == 302
    store.refresh_from_db()
    assert (store.max_tokens_per_chunk, store.display_name) == (150, "Mine")
    assert (store.is_public, store.retrieval) == (True, {"mode": "keyword"})


def test_who_only_reads_a_store_gets_no_values_to_send_back() -> None:
    store = StoreFactory(is_public=True, retrieval={"metadata": {"team": "secret"}})
    assert 'name="seen"' not in page(
        client_of(UserFactory(permissions=EDITOR)), "rag_store_change", store.pk
    )


def test_who_saves_the_same_as_the_other_or_twice_is_not_bothered(editor: Any) -> None:
    store, client = StoreFactory(owner=editor, name="Handbooks", slug="h"), client_of(editor)
    typed = form(slug="h", max_tokens_per_chunk=300, seen=opened(client, store))
    for _ in range(2):
        assert client.post(at("rag_store_change", store.pk), typed).status_code == 302
    # What is counted while files are indexed is no change by anybody.
    models.Store.objects.filter(pk=store.pk).update(n_chunks=9, avg_len_frozen=7)
    typed["seen"] = opened(client, store)
    models.Store.objects.filter(pk=store.pk).update(n_chunks=10)
    assert client.post(at("rag_store_change", store.pk), typed).status_code == 302


@pytest.mark.parametrize("seen", ["", "[]", "{", '{"name": {"a": [1]}}', "[" * 5000])
def test_a_form_that_says_nonsense_of_what_it_showed_is_no_crash(editor: Any, seen: str) -> None:
    store, client = StoreFactory(owner=editor, name="Handbooks", slug="h"), client_of(editor)
    response = client.post(at("rag_store_change", store.pk), form(slug="h", seen=seen))
    assert response.status_code in (200, 302)


def test_what_another_wrote_is_told_escaped(editor: Any) -> None:
    store, client = StoreFactory(owner=editor, name="Handbooks"), client_of(editor)
    seen = opened(client, store)
    models.Store.objects.filter(pk=store.pk).update(display_name="<script>alert(1)</script>")
    typed = form(slug=store.slug, display_name="Handbooks", seen=seen)
    shown = client.post(at("rag_store_change", store.pk), typed).content.decode()
    assert "<script>alert(1)" not in shown
    assert "to “&lt;script&gt;alert(1)&lt;/script&gt;”" in shown


def test_only_a_superuser_gives_a_store_away(editor: Any) -> None:
    other = UserFactory()
    store = StoreFactory(owner=editor)
    values = form(name=store.name, slug=store.slug, owner=other.pk)
    client_of(editor).post(at("rag_store_change", store.pk), values)
    store.refresh_from_db()
    assert store.owner == editor
    client_of(UserFactory(is_superuser=True)).post(at("rag_store_change", store.pk), values)
    store.refresh_from_db()
    assert store.owner == other


def test_the_list_counts_files_by_status_and_leads_to_them(editor: Any) -> None:
    store = StoreFactory(owner=editor)
    states = models.File.Status
    for status in (states.COMPLETED, states.COMPLETED, states.ERROR):
        FileFactory(store=store, status=status)
    shown = page(client_of(editor), "rag_store_changelist")
    assert "2 completed" in shown
    assert "1 error" in shown
    assert "processing" not in words(shown)
    for address in (
        at("rag_store_search", store.pk),
        at("rag_store_upload", store.pk),
        at("rag_file_changelist", store=store.pk),
        at("rag_chunk_changelist", store=store.pk),
        f"{at('rag_file_changelist')}?store={store.pk}&amp;status__exact=error",
    ):
        assert f'href="{address}"' in shown, address


def test_a_store_has_a_page_with_its_counts_and_ways(editor: Any) -> None:
    file = FileFactory(store=StoreFactory(owner=editor))
    publish(file, "one", "two")
    shown = page(client_of(editor), "rag_store_change", file.store.pk)
    assert "<dd>2</dd>" in shown
    assert "words:64 (64)" in shown
    assert f'href="{at("rag_store_upload", file.store.pk)}"' in shown


def test_deleting_a_store_tells_what_goes_and_takes_the_bytes(
    editor: Any, django_capture_on_commit_callbacks: Any
) -> None:
    file = FileFactory(store=StoreFactory(owner=editor))
    publish(file, "one", "two")
    client = client_of(editor)
    text = words(page(client, "rag_store_delete", file.store.pk))
    assert "Files: 1" in text
    assert "Chunks: 2" in text
    with django_capture_on_commit_callbacks(execute=True):
        client.post(at("rag_store_delete", file.store.pk), {"post": "yes"})
    assert not models.Store.objects.exists()
    assert not file.content.storage.exists(file.content.name)


def test_all_files_of_a_store_can_be_indexed_again(editor: Any) -> None:
    file = FileFactory(store=StoreFactory(owner=editor))
    publish(file, "one text", "another")
    FileFactory(store=StoreFactory())
    client = client_of(editor)
    asked = words(post_action(client, "store", "index_again", [file.store.pk]).content.decode())
    assert "what is there serves meanwhile" in asked
    assert "1 file" in asked
    assert not ProcrastinateJob.objects.exists()
    yes = {"confirmed": "yes", "what": "parse"}
    response = post_action(client, "store", "index_again", [file.store.pk], **yes)
    assert "1 store is indexed anew." in response.content.decode()
    run = models.ReindexRun.objects.get()
    assert (run.store, run.what, run.created_by) == (file.store, "parse", editor)
    jobs = ProcrastinateJob.objects.values_list("task_name", "args")
    assert [(name, args["run_id"]) for name, args in jobs] == [("rag.reindex_run", run.pk)]


def test_a_store_named_in_html_does_nothing(editor: Any) -> None:
    name = "<script>alert(1)</script>"
    store = StoreFactory(owner=editor, name=name)
    client = client_of(editor)
    addresses = [
        at("index"),
        at("rag_store_changelist"),
        at("rag_store_change", store.pk),
        at("rag_store_search", store.pk),
        at("rag_store_upload", store.pk),
        at("rag_store_delete", store.pk),
        at("rag_file_changelist", store=store.pk),
    ]
    for address in addresses:
        shown = client.get(address).content.decode()
        assert "<script>alert(1)" not in shown, address
        assert "&lt;script&gt;alert(1)" in shown, address


def test_the_retrieval_settings_are_those_of_the_search(editor: Any) -> None:
    client, chosen = client_of(editor), {"retrieval-mode": "keyword", "retrieval-top_k": 7}
    more = {"retrieval-content_types": "manual, note", "retrieval-metadata": '{"lang": "zh"}'}
    client.post(at("rag_store_add"), form(**chosen, **more))
    store = models.Store.objects.get()
    settings = store.retrieval_settings
    assert (settings.mode, settings.top_k, settings.fusion) == ("keyword", 7, "weighted")
    assert store.retrieval == {
        "mode": "keyword",
        "top_k": 7,
        "content_types": ["manual", "note"],
        "metadata": {"lang": "zh"},
    }
    shown = page(client, "rag_store_change", store.pk)
    assert 'value="manual, note"' in shown
    assert "How much the meaning counts" in words(shown)
    client.post(at("rag_store_change", store.pk), form(slug=store.slug))
    assert models.Store.objects.get().retrieval == {}


def test_settings_that_were_broken_past_the_form_are_shown_and_mended(editor: Any) -> None:
    client = client_of(editor)
    client.post(at("rag_store_add"), form())
    store = models.Store.objects.get()
    for broken in ({"mode": "psychic", "content_types": 3}, ["no object"], {"unheard": 1}):
        models.Store.objects.update(retrieval=broken)
        page(client, "rag_store_change", store.pk)
        client.post(at("rag_store_change", store.pk), form(slug=store.slug))
        assert models.Store.objects.get().retrieval == {}
