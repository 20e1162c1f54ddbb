"""Golden questions and evaluation runs by the API: rights, CSV, runs and comparisons."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from rag import models
from rag.services.evaluation.runs import run_evaluation_job
from tests.edges.admin_client import streamed, use_words_embedder
from tests.edges.api_client import KeyClient, client_for, error_of, ok
from tests.factories import GroupFactory, UserFactory
from tests.integration.golden_world import TEXTS, golden, golden_store

pytestmark = pytest.mark.django_db
RIGHTS = tuple(
    f"{deed}_{kind}"
    for deed in ("add", "change", "delete")
    for kind in ("goldenquestion", "evaluationrun")
)
QUESTIONS, RUNS = "/api/golden-questions", "/api/evaluation-runs"


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def world() -> tuple[models.Store, list[models.Chunk], KeyClient]:
    store, chunks = golden_store()
    store.owner = UserFactory(permissions=RIGHTS)
    store.save()
    return store, chunks, client_for(store.owner)


def test_a_question_is_made_read_changed_and_deleted(world: Any) -> None:
    store, chunks, client = world
    body = {
        "store": store.slug,
        "query": "How long is the warranty?",
        "note": "asked often",
        "targets": [{"chunk": chunks[0].pk, "grade": 3}],
    }
    made = ok(client.send("post", QUESTIONS, body), 201)
    assert made["store"] == store.pk
    assert made["origin"] == "api"
    assert made["targets"] == [{"chunk": chunks[0].pk, "file": chunks[0].file_id, "grade": 3}]
    more = {**body, "targets": [{"file": chunks[0].file_id}]}
    same = ok(client.send("post", QUESTIONS, more), 200)
    assert same["id"] == made["id"]
    assert len(same["targets"]) == 2
    address = f"{QUESTIONS}/{made['id']}"
    changed = ok(
        client.send(
            "patch",
            address,
            {"query": "Warranty?", "enabled": False, "targets": [{"chunk": chunks[1].pk}]},
        )
    )
    assert (changed["query"], changed["enabled"], changed["note"]) == (
        "Warranty?",
        False,
        "asked often",
    )
    assert [one["chunk"] for one in changed["targets"]] == [chunks[1].pk]
    listed = ok(client.get(f"{QUESTIONS}?store={store.slug}&enabled=false&words=warr"))
    assert [one["id"] for one in listed["results"]] == [made["id"]]
    assert ok(client.get(f"{QUESTIONS}?enabled=true"))["results"] == []
    assert client.delete(address).status_code == 204
    error_of(client.get(address), 404)


def test_a_question_cannot_become_another_one(world: Any) -> None:
    store, _, client = world
    golden(store, "taken")
    other = golden(store, "other")
    error = error_of(client.send("patch", f"{QUESTIONS}/{other.pk}", {"query": " taken "}), 409)
    assert "already" in error["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"query": "x"}, 400),
        ({"store": "{slug}", "query": ""}, 400),
        ({"store": "{slug}", "query": "x", "targets": [{"chunk": 0}]}, 400),
        ({"store": "{slug}", "query": "x", "targets": [{"grade": 4, "file": 1}]}, 400),
        ({"store": "{slug}", "query": "x", "targets": [{"chunk": 2**62}]}, 404),
        ({"store": "{slug}", "query": "x", "targets": [{}]}, 400),
        ({"store": "{slug}", "query": "x", "origin": "hand"}, 400),
        ({"store": "nowhere", "query": "x"}, 404),
    ],
)
def test_what_cannot_be_taken_is_told(body: dict[str, Any], status: int, world: Any) -> None:
    store, _, client = world
    sent = {**body, **({"store": store.slug} if body.get("store") == "{slug}" else {})}
    error_of(client.send("post", QUESTIONS, sent), status)
    assert not models.GoldenQuestion.objects.exists()


def test_readers_and_strangers_see_no_question_and_no_run(world: Any) -> None:
    store, chunks, owner = world
    question = golden(store, "warranty", [chunks[0]])
    run = ok(owner.send("post", RUNS, {"store": store.slug}), 202)
    readers = GroupFactory()
    store.reader_groups.add(readers)
    for user in (
        UserFactory(permissions=RIGHTS, groups=[readers]),
        UserFactory(permissions=RIGHTS),
    ):
        client = client_for(user)
        for address in (QUESTIONS, RUNS):
            assert ok(client.get(address))["results"] == []
        for address in (
            f"{QUESTIONS}/{question.pk}",
            f"{RUNS}/{run['id']}",
            f"{RUNS}/{run['id']}/results",
        ):
            error_of(client.get(address), 404)
            error_of(client.delete(address.removesuffix("/results")), 404)
        exported = client.get(f"{QUESTIONS}/export")
        assert b"warranty" not in streamed(exported)
        refused = client.send("post", QUESTIONS, {"store": store.slug, "query": "mine"})
        assert refused.status_code in (403, 404)
        assert client.send("post", RUNS, {"store": store.slug}).status_code in (403, 404)
    error_of(KeyClient().get(QUESTIONS), 401)
    error_of(client_for(store.owner, rights=["read"]).send("post", RUNS, {"store": "x"}), 403)
    error_of(client_for(UserFactory()).send("post", RUNS, {"store": store.slug}), 403)


def worked(client: KeyClient, ordered: dict[str, Any]) -> dict[str, Any]:
    run_evaluation_job(run_id=ordered["id"])
    done: dict[str, Any] = ok(client.get(f"{RUNS}/{ordered['id']}"))
    return done


def test_a_failed_run_says_why_in_the_reader_s_words(world: Any) -> None:
    store, chunks, client = world
    golden(store, "warranty", [chunks[0]])
    ordered = ok(client.send("post", RUNS, {"store": store.slug}), 202)
    store.golden_questions.all().delete()
    failed = worked(client, ordered)
    assert failed["state"] == "failed"
    assert "no golden question" in failed["error"]["message"]
    said = error_of(client.get(f"{RUNS}/{ordered['id']}/compare?before={ordered['id']}"), 400)
    assert "no figures" in said["message"]


def test_csv_goes_out_and_comes_in(world: Any) -> None:
    store, chunks, client = world
    golden(store, "warranty", [chunks[0]], grade=2)
    response = client.get(f"{QUESTIONS}/export?store={store.slug}")
    text = streamed(response)
    assert response["Content-Type"].startswith("text/csv")
    assert TEXTS[0].encode() in text
    store.golden_questions.all().delete()
    upload = SimpleUploadedFile("q.csv", text + b"bad,7,guide.txt\r\n")
    told = ok(client.post(f"{QUESTIONS}/import", {"store": store.slug, "file": upload}))
    assert (told["new"], told["known"]) == (1, 0)
    assert [one["line"] for one in told["refused"]] == [3]
    assert "grade" in told["refused"][0]["error"]["message"]
    assert store.golden_questions.get().targets.get().chunk_id == chunks[0].pk


def test_a_run_is_made_read_compared_and_deleted(world: Any) -> None:
    store, chunks, client = world
    golden(store, "warranty of the pump", [chunks[0]])
    golden(store, "seeds in a cool room", [chunks[1]])
    ordered = ok(client.send("post", RUNS, {"store": store.slug, "label": "v1"}), 202)
    assert (ordered["state"], ordered["n_done"], ordered["n_questions"]) == ("waiting", 0, 2)
    first = worked(client, ordered)
    assert (first["state"], first["error"]) == ("done", None)
    assert first["metrics"]["nDCG@10"] == 1.0
    settings = {"mode": "keyword", "bm25_threshold": 1000}
    order = {"store": store.slug, "settings": settings}
    second = worked(client, ok(client.send("post", RUNS, order), 202))
    assert second["metrics"]["R@10"] == 0.0
    assert second["settings_hash"] != first["settings_hash"]
    listed = ok(client.get(f"{RUNS}?store={store.slug}"))["results"]
    assert [one["id"] for one in listed] == [second["id"], first["id"]]
    results = ok(client.get(f"{RUNS}/{first['id']}/results"))["results"]
    assert [one["ranks"] for one in results] == [[1], [1]]
    told = ok(client.get(f"{RUNS}/{second['id']}/compare?before={first['id']}"))
    assert told["measures"]["nDCG@10"]["difference"] == -1.0
    assert [one["difference"] for one in told["questions"]] == [-1.0, -1.0]
    error_of(client.get(f"{RUNS}/{second['id']}/compare"), 400)
    error_of(client.get(f"{RUNS}/{second['id']}/compare?before=999999"), 404)
    assert client.delete(f"{RUNS}/{first['id']}").status_code == 204
    assert models.EvaluationResult.objects.count() == 2


def test_a_store_without_questions_is_not_measured(world: Any) -> None:
    store, _, client = world
    assert (
        "no golden question"
        in error_of(client.send("post", RUNS, {"store": store.slug}), 400)["message"]
    )
    assert not models.EvaluationRun.objects.exists()


def test_bodies_are_held_to_the_limits_of_all_others(world: Any) -> None:
    store, _chunks, client = world
    nested = '{"store": "x", "query": ' + "[" * 100_000 + "]" * 100_000 + "}"
    for body, status in ((nested, 400), ('{"note": "' + "n" * 6_000_000 + '"}', 413)):
        answer = client.post(QUESTIONS, body, content_type="application/json")
        assert error_of(answer, status)
    answer = client.send("post", QUESTIONS, {"store": store.slug, "query": "a\0b"})
    assert "NUL" in error_of(answer, 400)["message"]
    assert not store.golden_questions.exists()
