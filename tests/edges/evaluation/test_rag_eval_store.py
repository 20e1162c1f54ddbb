"""``rag_eval --store``: golden questions asked by command, with an exit code for CI."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rag import models
from tests.edges.admin_client import use_words_embedder
from tests.integration.golden_world import asked_store, golden

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def store() -> models.Store:
    return asked_store()


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> str:
    capsys.readouterr()
    call_command("rag_eval", *map(str, words))
    return capsys.readouterr().out


def test_it_prints_figures_and_keeps_the_run(
    store: models.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run(capsys, "--store", store.slug, "--label", "nightly")
    assert "2 questions" in told
    assert "before" not in told
    kept = models.EvaluationRun.objects.get()
    assert (kept.label, kept.n_questions) == ("nightly", 2)
    assert f"run {kept.pk}:" in told


def test_the_next_run_is_compared_question_by_question(
    store: models.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "--store", store.slug)
    models.Chunk.objects.filter(text__startswith="Seeds").update(enabled=False)
    told = run(capsys, "--store", store.slug)
    assert "nDCG@10: -0.500" in told
    assert "0 better, 1 worse, 1 the same" in told
    assert "-1.000  1.000 > 0.000  seeds in a cool room" in told
    first = models.EvaluationRun.objects.order_by("pk").first()
    assert first is not None
    found = json.loads(run(capsys, "--store", store.slug, "--json", "--against", first.pk))
    assert found["against"]["run"] == first.pk
    assert found["against"]["difference"] == -0.5
    assert found["nDCG@10"] == 0.5
    assert [one["query"] for one in found["against"]["changed"]] == ["seeds in a cool room"]


def test_limits_decide_on_the_exit_code(
    store: models.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "--store", store.slug, "--min-ndcg", "0.99", "--max-drop", "0")
    models.Chunk.objects.filter(text__startswith="Seeds").update(enabled=False)
    with pytest.raises(CommandError, match="below 0.99") as failed:
        run(capsys, "--store", store.slug, "--min-ndcg", "0.99")
    assert failed.value.returncode == 1
    first = models.EvaluationRun.objects.order_by("pk").first()
    assert first is not None
    with pytest.raises(CommandError, match="fell by 0.500, more than 0.1"):
        run(capsys, "--store", store.slug, "--max-drop", "0.1", "--against", first.pk)
    run(capsys, "--store", store.slug, "--max-drop", "0.6", "--against", first.pk)


def test_settings_of_the_run_are_those_asked_for(
    store: models.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    retrieval = json.dumps({"bm25_threshold": 1000})
    run(capsys, "--store", store.slug, "--mode", "bm25", "--retrieval", retrieval)
    kept = models.EvaluationRun.objects.get()
    assert kept.settings["mode"] == "keyword"
    assert kept.metrics["R@10"] == 0.0
    with pytest.raises(CommandError, match="Unknown retrieval setting"):
        run(capsys, "--store", store.slug, "--retrieval", '{"no": 1}')


def test_answers_are_measured_too(store: models.Store, capsys: pytest.CaptureFixture[str]) -> None:
    told = run(capsys, "--store", store.slug, "--answers", "--model", "extractive:sentences")
    kept = models.EvaluationRun.objects.get()
    assert kept.chat_model == "extractive:sentences"
    assert kept.metrics["citation_precision"] == 1.0
    assert kept.metrics["refusal_rate"] == 0.0
    assert kept.metrics["expected_cited"] == 1.0
    assert "citation_precision: 1.000" in told
    assert all(result.answer["citations"] for result in kept.results.all() if result.answer)
    assert not models.QueryLog.objects.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--store", "nowhere"), "no store"),
        (("--store", "{slug}", "--against", "999999"), "no evaluation run"),
        (("--store", "{slug}", "--mode", "all"), "--data only"),
        (("--store", "{slug}", "--limit", "0"), "The limit is 0"),
        (("--store", "{slug}", "--limit", "-1"), "The limit is -1"),
        (("--store", "{slug}", "--queries", "elsewhere"), "--queries goes with --data only"),
        (("--data", "somewhere", "--min-ndcg", "0.5"), "--min-ndcg goes with --store only"),
        (("--data", "somewhere", "--answers"), "--answers goes with --store only"),
        (("--store", "{slug}", "--space", "999999"), "no space"),
    ],
)
def test_mistakes_are_said(
    words: tuple[str, ...], said: str, store: models.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError, match=said):
        run(capsys, *(word.replace("{slug}", store.slug) for word in words))


def test_a_run_that_shares_no_question_is_said_not_compared(
    store: models.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "--store", store.slug)
    chunk = models.Chunk.objects.filter(store=store).first()
    assert chunk is not None
    store.golden_questions.all().delete()
    golden(store, "another", [chunk])
    assert "shares no question" in run(capsys, "--store", store.slug)
