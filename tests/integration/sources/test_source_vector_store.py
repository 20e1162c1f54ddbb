"""The source of our own stores, through the ports of the house: rights, settings, names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import (
    ConfigurationError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    UnknownNameError,
)
from rag.core.options import read_options
from rag.core.sources import FetchRequest, SourceQuery, SourceResult
from rag.plugins.contract_source import Ask, SourceContract
from rag.plugins.sources.vector_store import VectorStoreSource
from rag.services.access.api_keys import scope_of
from rag.services.sources.ports import SourceContext
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.fakes.loopback import LoopbackServer, Reply

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture(autouse=True)
def stores() -> Iterator[list[models.Store]]:
    public = StoreFactory(name="Manuals", slug="manuals", is_public=True)
    publish(FileFactory(store=public, name="pump.txt", metadata={"lang": "en"}), "the pump stops")
    publish(
        FileFactory(store=public, name="泵.txt", metadata={"lang": "zh"}, content_type="note"),
        "水泵停机等待冷却",
        "pump 说明",
    )
    private = StoreFactory(name="Secret", slug="secret")
    publish(FileFactory(store=private, name="secret.txt"), "the pump of the secret lab")
    yield [public, private]


def ask(text: str, scope: Scope = OPERATOR, /, **options: Any) -> SourceResult:
    made = read_options(VectorStoreSource.Options, options, of="vector_store")
    return VectorStoreSource(made).retrieve(SourceQuery(text, scope, Deadline(10), SourceContext()))


def names(result: SourceResult) -> list[str]:
    return [hit.file_name for hit in result.hits]


@pytest.mark.django_db(transaction=True)
class TestVectorStoreSource(SourceContract):
    plugin = VectorStoreSource
    options = {"collection": "manuals"}
    is_never_slow = "our own index, whose statements take milliseconds"

    def ports(self) -> Any:
        return SourceContext()

    def leave_thread(self) -> None:
        connections.close_all()

    def query_with_hits(self) -> str:
        return "pump"

    def query_without_hits(self) -> Ask:
        return Ask("zzz", options={"collection": "manuals", "mode": "keyword"})

    def hidden_query(self) -> Ask:
        return Ask("pump", options={"collection": "secret"})

    def failing_query(self) -> Ask:
        return Ask("pump", options={"collection": "nowhere"})


def test_a_store_is_found_by_slug_name_and_resource_name(stores: list[models.Store]) -> None:
    for name in ("manuals", "Manuals", stores[0].resource_name):
        assert "pump.txt" in names(ask("pump", collection=name))


def test_several_stores_are_searched_together(stores: list[models.Store]) -> None:
    found = ask("pump", collection="manuals", collections=["secret", "manuals"], top_k=10)
    assert {"pump.txt", "secret.txt"} <= set(names(found))
    assert [hit.rank for hit in found.hits] == list(range(1, len(found.hits) + 1))


def test_top_k_filters_content_types_and_mode_hold() -> None:
    at = {"collection": "manuals"}
    assert len(ask("pump", **at, top_k=1).hits) == 1
    assert set(names(ask("pump", **at, filters={"lang": "zh"}))) == {"泵.txt"}
    assert set(names(ask("pump", **at, content_types=["note"]))) == {"泵.txt"}
    (only,) = ask("冷却", **at, mode="keyword").hits
    assert only.text == "水泵停机等待冷却" and only.vector.rank is None


def test_a_threshold_keeps_only_what_is_near_enough() -> None:
    near = ask("the pump stops", collection="manuals", mode="semantic", similarity_threshold=0.9)
    assert [hit.text for hit in near.hits] == ["the pump stops"]
    assert len(ask("the pump stops", collection="manuals", mode="semantic").hits) > 1


def test_an_unreadable_store_is_told_like_one_that_does_not_exist(
    stores: list[models.Store],
) -> None:
    told = []
    for name in ("secret", "nowhere"):
        with pytest.raises(NotFoundError) as caught:
            ask("pump", Scope.anonymous(), collections=["manuals", name])
        told.append(str(caught.value).replace(name, "…"))
    assert told[0] == told[1]
    assert "manuals" not in told[0]
    group = GroupFactory()
    stores[1].reader_groups.add(group)
    member = scope_of(UserFactory(groups=[group]))
    assert names(ask("pump", member, collection="secret")) == ["secret.txt"]


def test_a_source_without_a_store_is_refused() -> None:
    for given in ({}, {"collection": " "}, {"collections": [""]}):
        with pytest.raises(InvalidInputError, match="names no store"):
            ask("pump", **given)


def test_an_unknown_mode_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="auto, hybrid, keyword, semantic"):
        ask("pump", collection="manuals", mode="magic")


def test_the_house_lends_vectors_secrets_and_its_network(settings: Any) -> None:
    settings.RAG = {
        **settings.RAG,
        "SECRETS": {"crm": "s3cret-word"},
        "FETCH_HOSTS": ("127.0.0.1",),
    }
    house = SourceContext()
    assert house.secret("crm") == "s3cret-word"
    with pytest.raises(UnknownNameError, match="Unknown secret “erp”. Known: crm") as caught:
        house.secret("erp")
    assert "s3cret-word" not in str(caught.value)
    bound = {"value": "s3cret-word", "hosts": ["crm.example.org"]}
    settings.RAG = {**settings.RAG, "SECRETS": {"crm": bound, "odd": {"value": "s3cret-word"}}}
    assert house.secret("crm", url="https://crm.example.org:8443/find") == "s3cret-word"
    for url in ("https://evil.example/crm.example.org", "https://crm.example.org@evil.example", ""):
        with pytest.raises(ForbiddenError, match="may not be sent to") as refused:
            house.secret("crm", url=url)
        assert "s3cret-word" not in str(refused.value)
    with pytest.raises(ConfigurationError, match="“odd” in RAG_SECRETS cannot be read"):
        house.secret("odd", url="https://crm.example.org")
    for empty in ("", " \n"):
        with pytest.raises(InvalidInputError, match="The query is empty"):
            house.embed_query(empty)
    assert house.embed_query("pump").shape == (64,)
    assert house.embed_query("pump", model="words:16").shape == (16,)
    with LoopbackServer() as server:
        server.route("GET", "/", lambda call: Reply(b"there"))
        request = FetchRequest(f"{server.origin}/")
        assert house.fetch(request, deadline=Deadline(5)).body == b"there"


def test_a_store_s_own_settings_hold_unless_the_source_says_otherwise(
    stores: list[models.Store],
) -> None:
    models.Store.objects.filter(pk=stores[0].pk).update(
        retrieval={"vector_threshold": 1.0, "mode": "semantic"}
    )
    question = "a question in entirely other words"
    assert ask(question, collection=stores[0].slug).hits == ()
    assert ask(question, collection=stores[0].slug, similarity_threshold=-1.0).hits
