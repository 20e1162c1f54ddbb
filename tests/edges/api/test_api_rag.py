"""Retrieval and answers by the API: hits, a context, a prompt, citations; only what one may read."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rag import models
from rag.api.retrieval.schemas import SettingsBody
from rag.core.errors import InvalidInputError
from rag.core.hits import Hit
from rag.core.types import RetrievalSettings
from rag.services.answers import pipeline
from tests.edges.admin_client import use_words_embedder
from tests.edges.api_client import KeyClient, client_for, error_of, ok
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish

RETRIEVE, ASK = "/api/rag/retrieve", "/api/rag/ask"


@pytest.fixture
def store(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> Any:
    use_words_embedder(monkeypatch, settings)
    store = StoreFactory(owner=UserFactory(), slug="manuals", name="All manuals")
    file = FileFactory(store=store, name="pump.txt", content_type="manual", metadata={"lang": "en"})
    publish(
        file,
        "The pump HX-400 is serviced once a year.",
        "The valve closes by itself.",
        "水泵每年检修一次。",
    )
    publish(FileFactory(store=store, name="tea.txt"), "Tea is poured over the pump of the samovar.")
    return store


@pytest.fixture
def client(store: Any) -> KeyClient:
    return client_for(store.owner, rights=["read"])


def retrieve(client: KeyClient, **body: Any) -> dict[str, Any]:
    whole = {"query": "pump HX-400", "stores": ["manuals"], **body}
    return dict(ok(client.send("post", RETRIEVE, whole)))


def test_hits_context_prompt_and_metadata_come_together(client: KeyClient) -> None:
    told = retrieve(client, enhancement="standard", prompt="Write a service plan.")
    assert set(told) == {"hits", "context", "enhanced_prompt", "metadata"}
    first = told["hits"][0]
    assert first["content"].startswith("The pump HX-400 is serviced once a year.")
    assert first["source"] == {"type": "manual", "name": "pump.txt", "id": first["document_id"]}
    assert first["rank"] == 1
    assert Hit.from_dict(first).as_dict() == first
    assert "The pump HX-400 is serviced once a year." in told["context"]
    assert told["context"] in told["enhanced_prompt"]
    assert "Write a service plan." in told["enhanced_prompt"]
    metadata = told["metadata"]
    assert metadata["stores"] == ["manuals"]
    assert metadata["context_type"] == "standard"
    assert metadata["n_sources"] >= 1
    assert metadata["mode"] in ("keyword", "hybrid", "semantic")
    assert metadata["top_k"] >= 1


@pytest.mark.parametrize("name", ["manuals", "All manuals"])
def test_stores_have_several_names(client: KeyClient, store: Any, name: str) -> None:
    assert retrieve(client, stores=[name])["hits"]
    assert retrieve(client, stores=[store.resource_name, name])["metadata"]["stores"] == ["manuals"]


def test_without_an_enhancement_there_is_no_prompt(client: KeyClient) -> None:
    assert retrieve(client)["enhanced_prompt"] is None
    assert "pump HX-400" in retrieve(client, enhancement="analytical")["enhanced_prompt"]


@pytest.mark.parametrize("kind", ["standard", "detailed", "summary", "xml"])
def test_the_context_is_laid_out_as_asked(client: KeyClient, kind: str) -> None:
    told = retrieve(client, context_type=kind)
    assert told["metadata"]["context_type"] == kind
    assert ("<documents>" in told["context"]) == (kind == "xml")
    assert "pump.txt" in told["context"]


def test_settings_replace_what_they_name_of_the_store_s_own(client: KeyClient, store: Any) -> None:
    store.retrieval = {"top_k": 2, "mode": "keyword", "context_type": "detailed"}
    store.save()
    own = retrieve(client, query="pump")
    assert (len(own["hits"]), own["metadata"]["mode"]) == (2, "keyword")
    assert own["metadata"]["context_type"] == "detailed"
    one = retrieve(client, query="pump", settings={"top_k": 1})
    assert (len(one["hits"]), one["metadata"]["mode"]) == (1, "keyword")
    typed = retrieve(client, query="pump", settings={"content_types": ["manual"], "top_k": 10})
    assert {hit["content_type"] for hit in typed["hits"]} == {"manual"}
    none = retrieve(client, query="pump", settings={"metadata": {"lang": "fr"}})
    assert none["hits"] == []
    assert none["context"] == ""


@pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
def test_the_mode_is_the_one_asked_for(client: KeyClient, mode: str) -> None:
    assert retrieve(client, retrieval_mode=mode)["metadata"]["mode"] == mode


def test_a_budget_holds(client: KeyClient) -> None:
    told = retrieve(client, query="pump valve", settings={"context_tokens": 100, "top_k": 10})
    assert len(told["context"]) < 600


def test_only_what_one_may_read_is_found(store: Any) -> None:
    few = GroupFactory()
    reader = UserFactory(groups=[GroupFactory()])
    store.reader_groups.set(reader.groups.all())
    models.File.objects.get(name="pump.txt").restricted_to.add(few)
    names = {hit["source"]["name"] for hit in retrieve(client_for(reader), query="pump")["hits"]}
    assert names == {"tea.txt"}
    stranger = client_for(UserFactory())
    for address in (RETRIEVE, ASK):
        error = error_of(stranger.send("post", address, {"query": "x", "stores": ["manuals"]}), 404)
        assert error["params"] == {"name": "manuals", "known": "none"}


def test_a_limited_key_searches_its_stores_only(store: Any) -> None:
    other = StoreFactory(owner=store.owner, slug="other")
    client = client_for(store.owner, stores=[other])
    body = {"query": "pump", "stores": ["manuals"]}
    assert error_of(client.send("post", RETRIEVE, body), 404)["params"]["known"] == "other"
    body["stores"] = ["other"]
    assert ok(client.send("post", RETRIEVE, body))["hits"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"query": ""}, "query"),
        ({"query": 7}, "query"),
        ({"query": "x" * 4001}, "query"),
        ({"stores": []}, "stores"),
        ({"stores": "manuals"}, "stores"),
        ({"stores": [""]}, "stores.0"),
        ({"stores": ["a"] * 51}, "stores"),
        ({"settings": {"top_k": 0}}, "settings.top_k"),
        ({"settings": {"top_k": "x"}}, "settings.top_k"),
        ({"settings": {"vector_weight": 1.5}}, "settings.vector_weight"),
        ({"settings": {"mode": "psychic"}}, "settings.mode"),
        ({"settings": {"topk": 1}}, "settings.topk"),
        ({"settings": []}, "settings"),
        ({"context_type": "poem"}, "context_type"),
        ({"retrieval_mode": "psychic"}, "retrieval_mode"),
        ({"enhancement": 7}, "enhancement"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_values_are_told_by_field(client: KeyClient, body: dict[str, Any], field: str) -> None:
    whole = {"query": "pump", "stores": ["manuals"], **body}
    error = error_of(client.send("post", RETRIEVE, whole), 422)
    assert list(error["fields"]) == [field]


def test_an_unknown_enhancement_lists_the_known_ones(client: KeyClient) -> None:
    body = {"query": "pump", "stores": ["manuals"], "enhancement": "magical"}
    error = error_of(client.send("post", RETRIEVE, body), 400)
    assert error["code"] == "unknown_name"
    assert {"standard", "creative", "analytical"} <= set(error["params"]["known"].split(", "))


def test_weights_that_are_both_nothing_are_refused(client: KeyClient) -> None:
    settings = {"vector_weight": 0, "bm25_weight": 0}
    body = {"query": "pump", "stores": ["manuals"], "settings": settings}
    assert error_of(client.send("post", RETRIEVE, body), 400)["code"] == "invalid_input"


def test_an_answer_comes_with_checked_citations(client: KeyClient) -> None:
    body = {"query": "How often is the pump HX-400 serviced?", "stores": ["manuals"]}
    told = ok(client.send("post", ASK, body))
    assert "serviced once a year" in told["answer"]
    cited = told["citations"][0]
    assert (cited["verdict"], cited["file_name"]) == ("verified", "pump.txt")
    chunk = models.Chunk.objects.get(pk=cited["chunk_id"])
    text = chunk.file.canonical_text[cited["char_start"] : cited["char_end"]]
    assert text in chunk.text
    assert text
    assert told["notice"]
    assert told["metadata"]["timings_ms"]["total"] > 0
    log = models.QueryLog.objects.get(kind="ask")
    assert log.user_id == models.ApiKey.objects.get().user_id


# The shape that the OpenAPI document shows is the rule that the core keeps.
LIMITED = {
    "top_k": st.none() | st.integers(-5, 300),
    "vector_weight": st.floats(-0.5, 1.5),
    "bm25_weight": st.floats(-0.5, 1.5),
    "vector_threshold": st.floats(-2, 2),
    "bm25_threshold": st.floats(-1, 2_000_000),
    "rerank_top_k": st.integers(-5, 300),
    "context_tokens": st.integers(0, 2_000_000),
    "mode": st.sampled_from(["auto", "semantic", "keyword", "hybrid", "", "x"]),
    "fusion": st.sampled_from(["weighted", "rrf", "max"]),
}


@given(st.fixed_dictionaries({}, optional=LIMITED))
def test_the_shape_takes_what_the_settings_take(values: dict[str, Any]) -> None:
    try:
        RetrievalSettings.from_dict({"vector_weight": 0.5, "bm25_weight": 0.5, **values})
        is_allowed = True
    except InvalidInputError as error:
        is_allowed = "both 0" in str(error)
    try:
        made = SettingsBody(**values)
        assert is_allowed
        assert made.model_dump(exclude_unset=True) == values
    except ValidationError:
        assert not is_allowed


def test_the_shape_has_every_setting_with_its_default() -> None:
    assert RetrievalSettings.from_dict(SettingsBody().model_dump()) == RetrievalSettings()
    assert set(SettingsBody.model_fields) == {
        one.name for one in dataclasses.fields(RetrievalSettings)
    }


def test_a_question_with_its_key_is_answered_once_and_not_past_a_change(
    client: KeyClient, store: Any
) -> None:
    def asked(query: str = "When is the pump HX-400 serviced?") -> Any:
        body = {"query": query, "stores": ["manuals"]}
        headers = {"idempotency-key": "k-1"}
        return client.post(ASK, body, content_type="application/json", headers=headers)

    first = ok(asked())
    assert ok(asked()) == first and models.QueryLog.objects.filter(kind="ask").count() == 1
    error_of(asked("Something else?"), 409)
    models.Chunk.objects.filter(text__startswith="The pump").first().delete()
    assert ok(asked())["answer"] != first["answer"]
    bad = client.post(ASK, {}, content_type="application/json", headers={"idempotency-key": "ü"})
    assert bad.status_code in (400, 422)


def test_an_enhancer_words_the_prompt_and_a_model_is_chosen_by_who_may(
    store: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.RAG = {**settings.RAG, "ASK_MODELS": ("extractive:sentences",)}
    told: list[str] = []
    real = pipeline.enhance_with

    def hear(name: str, prompt: str, context: str) -> str:
        told.append(real(name, prompt, context))
        return told[-1]

    monkeypatch.setattr(pipeline, "enhance_with", hear)
    body = {"query": "When is the pump HX-400 serviced?", "stores": ["manuals"]}
    client = client_for(store.owner, rights=["read"])
    assert ok(client.send("post", ASK, {**body, "enhancement": "analytical"}))["citations"]
    assert "Analysis task: When is the pump" in told[0] and "once a year" in told[0]
    error = error_of(client.send("post", ASK, {**body, "enhancement": "loud"}), 400)
    assert "loud" in str(error) and "analytical" in str(error)

    chosen = {**body, "model": "extractive:sentences"}
    error_of(client.send("post", ASK, chosen), 403)
    maker = UserFactory(permissions=["add_agent"])
    store.is_public = True
    store.save()
    maker_client = client_for(maker, rights=["read"])
    assert ok(maker_client.send("post", ASK, chosen))["model"] == "extractive:sentences"
    error = error_of(maker_client.send("post", ASK, {**body, "model": "gemini:costly"}), 400)
    assert "gemini:costly" in str(error) and "extractive:sentences" in str(error)
