"""Golden questions asked of a store: figures, spaces, and passages that moved."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, NotFoundError
from rag.services.evaluation.compare import compare_runs
from rag.services.evaluation.golden_questions import expected_targets
from rag.services.evaluation.runs import evaluate_store
from rag.services.files.delete import delete_files
from rag.services.wiring import registry as wiring
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, SpaceFactory, StoreFactory, publish
from tests.integration.golden_world import TEXTS, golden, golden_store

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


def chunks_now(question: models.GoldenQuestion) -> set[int]:
    (expected,) = expected_targets(question_ids=[question.pk])[question.pk]
    return set(expected.chunk_ids or ())


def test_a_run_tells_each_question_s_ranks_and_the_means() -> None:
    store, chunks = golden_store()
    easy = golden(store, "How long is the warranty of the pump?", [chunks[0]])
    golden(store, "warranty of the pump", [chunks[3]])
    run = evaluate_store(store=store, facts={"label": "first"})
    results = {result.query: result for result in run.results.all()}
    assert results[easy.query].ranks == [1]
    assert results[easy.query].metrics["nDCG@10"] == 1.0
    assert results["warranty of the pump"].ranks != [1]
    assert run.n_questions == 2
    assert run.metrics["R@1"] == 0.5
    assert run.metrics["R@10"] == 1.0
    assert run.label == "first"
    assert run.settings_hash == store.retrieval_settings.hash
    assert (run.model, run.space_id) == (store.space.model, store.space_id)
    assert not models.QueryLog.objects.exists()


def test_a_file_is_met_by_any_of_its_chunks_once() -> None:
    store, chunks = golden_store()
    question = golden(store, "pump warranty seeds room")
    models.GoldenTarget.objects.create(question=question, file=chunks[0].file)
    run = evaluate_store(store=store)
    assert run.results.get().ranks == [1]
    assert run.metrics["nDCG@10"] == 1.0


def test_a_chunk_and_its_file_are_two_targets_and_need_two_hits() -> None:
    store, chunks = golden_store()
    question = golden(store, "warranty of the pump", [chunks[0]], grade=3)
    models.GoldenTarget.objects.create(question=question, file=chunks[0].file)
    assert evaluate_store(store=store).results.get().ranks == [1, 2]


def test_what_is_off_or_expects_nothing_is_not_asked() -> None:
    store, chunks = golden_store()
    golden(store, "nothing is expected")
    off = golden(store, "seeds", [chunks[1]])
    models.GoldenQuestion.objects.filter(pk=off.pk).update(enabled=False)
    with pytest.raises(InvalidInputError, match="no golden question"):
        evaluate_store(store=store)
    assert evaluate_store(store=store, questions=[off]).n_questions == 1


def test_settings_decide_on_the_hits_and_the_run_carries_their_hash() -> None:
    store, chunks = golden_store()
    golden(store, "warranty pump", [chunks[0]])
    strict = store.retrieval_settings.but(mode="keyword", bm25_threshold=1000)
    run = evaluate_store(store=store, settings=strict)
    assert run.metrics["R@10"] == 0.0
    assert run.settings_hash == strict.hash != store.retrieval_settings.hash
    assert run.settings["mode"] == "keyword"


def test_another_space_of_the_store_is_searched_while_the_live_one_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, chunks = golden_store()
    golden(store, "warranty pump", [chunks[0]])
    other = SpaceFactory(version="2")
    vectors_only = store.retrieval_settings.but(mode="semantic")
    with connection.cursor() as cursor:
        # Each chunk has another one's vector there, so that the pump's is found for another text.
        cursor.execute(
            "INSERT INTO rag_chunk_vec (space_id, store_id, chunk_id, file_id, enabled, is_han,"
            " content_type, restricted, embedding)"
            " SELECT %s, store_id, CASE WHEN chunk_id = %s THEN %s WHEN chunk_id = %s THEN %s"
            " ELSE chunk_id END, file_id, enabled, is_han, content_type, restricted, embedding"
            " FROM rag_chunk_vec WHERE space_id = %s",
            [other.pk, chunks[0].pk, chunks[4].pk, chunks[4].pk, chunks[0].pk, store.space_id],
        )
    # The words' embedder has one version; its vectors are the same in both.
    embedder = wiring.embedder_of(store.live_space_id)
    monkeypatch.setattr(wiring, "embedder_of", lambda space_id: embedder)
    live = evaluate_store(store=store, settings=vectors_only)
    moved = evaluate_store(store=store, settings=vectors_only, space_id=other.pk)
    again = evaluate_store(store=store, settings=vectors_only)
    assert live.results.get().ranks == again.results.get().ranks == [1]
    assert moved.results.get().ranks != [1]
    assert (moved.space_id, live.space_id) == (other.pk, store.space_id)
    told = compare_runs(before=live, after=moved)
    assert told.main.difference < 0
    assert told.is_worse_by(0.01)
    assert not told.is_worse_by(1.0)


def test_a_space_that_is_not_there_is_an_error() -> None:
    store, chunks = golden_store()
    golden(store, "pump", [chunks[0]])
    with pytest.raises(NotFoundError, match="no space"):
        evaluate_store(store=store, space_id=10**9)


def test_a_passage_is_followed_through_new_readings_of_its_file() -> None:
    store, chunks = golden_store()
    question = golden(store, "How is the sensor calibrated?", [chunks[4]])
    file = chunks[0].file
    # Cut in another way: what held the passage is retired, the one that holds it now counts.
    now = publish(file, "A new first page.", f"{TEXTS[3]} {TEXTS[4]}", TEXTS[0])
    assert not models.Chunk.objects.get(pk=chunks[4].pk).is_live
    assert chunks_now(question) == {now[1].pk}
    assert evaluate_store(store=store).results.get().ranks == [1]
    # Reworded a little: most of the words are there.
    now = publish(file, "The sensor must be calibrated with two clean liquids.", TEXTS[0])
    assert chunks_now(question) == {now[0].pk}
    # Back to the first text: its own chunk, or one of the same text.
    now = publish(file, TEXTS[0], TEXTS[4])
    assert chunks_now(question) == {now[1].pk}


def test_a_passage_that_is_gone_is_counted_as_lost_not_as_a_miss() -> None:
    store, chunks = golden_store()
    golden(store, "seeds", [chunks[1]])
    golden(store, "pump", [chunks[0]])
    publish(chunks[0].file, TEXTS[0], "Something else entirely stands here now.")
    run = evaluate_store(store=store)
    assert (run.n_lost, run.n_questions, run.metrics["R@10"]) == (1, 1, 1.0)


def test_targets_go_with_their_chunks_and_files() -> None:
    store, chunks = golden_store()
    question = golden(store, "pump", chunks[:2])
    chunks[0].delete()
    assert question.targets.count() == 1
    delete_files(scope=Scope.operator(), file_ids=[chunks[1].file_id])
    assert question.targets.count() == 0
    assert not models.GoldenQuestion.objects.askable().exists()


def test_runs_of_different_stores_or_questions_are_not_compared() -> None:
    store, chunks = golden_store()
    first = golden(store, "pump", [chunks[0]])
    run = evaluate_store(store=store)
    first.delete()
    golden(store, "seeds", [chunks[1]])
    with pytest.raises(InvalidInputError, match="No question is in both"):
        compare_runs(before=run, after=evaluate_store(store=store))
    other = StoreFactory()
    golden(other, "pump", publish(FileFactory(store=other), TEXTS[0]))
    with pytest.raises(InvalidInputError, match="different stores"):
        compare_runs(before=run, after=evaluate_store(store=other))


def test_the_worst_change_comes_first() -> None:
    store, chunks = golden_store()
    golden(store, "warranty of the pump", [chunks[0]])
    golden(store, "seeds in a cool room", [chunks[1]])
    before = evaluate_store(store=store)
    models.Chunk.objects.filter(pk=chunks[1].pk).update(enabled=False)
    told = compare_runs(before=before, after=evaluate_store(store=store))
    assert [one.query for one in told.questions] == ["seeds in a cool room", "warranty of the pump"]
    assert told.questions[0].difference == -1.0
    assert (told.questions[0].ranks_before, told.questions[0].ranks_after) == ([1], [])
    assert (told.main.before, told.main.after, told.main.n_worse) == (1.0, 0.5, 1)
    assert told.main.p_value == 1.0
    assert (told.n_only_before, told.n_only_after) == (0, 0)
