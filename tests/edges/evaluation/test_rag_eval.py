"""``manage.py rag_eval``: indexed once, searched by every query, told in figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rag import models
from rag.core.access import Scope
from rag.services.evaluation.datasets import evaluate_folder
from rag.services.search.retrieval import retrieve
from rag.services.stores.lifecycle import create_store
from tests.edges.admin_client import use_words_embedder
from tests.index_hits import index_hits

pytestmark = pytest.mark.django_db
TEXTS = {
    "d1": ("Pumps", "A pump moves water through the pipes of the plant."),
    "d2": ("", "阀门控制水流的方向和大小。"),
    "d3": ("Filters", "A filter cleans the water before it enters the tank."),
    "d4": ("", "The canteen opens at noon."),
}
QUERIES = {"q1": "What moves water?", "q2": "阀门控制什么？", "q3": "When does the canteen open?"}
QRELS = {"q1": "d1", "q2": "d2", "q3": "d4"}


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> None:
    use_words_embedder(monkeypatch, settings)
    settings.MEDIA_ROOT = tmp_path / "media"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "plant")


def write(folder: Path, texts: Any = TEXTS, queries: Any = QUERIES) -> Path:
    folder.mkdir(exist_ok=True)
    corpus = [{"_id": key, "title": title, "text": text} for key, (title, text) in texts.items()]
    asked = [{"_id": key, "text": text} for key, text in queries.items()]
    for name, rows in (("corpus.jsonl", corpus), ("queries.jsonl", asked)):
        (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    judged = [f"{query}\t{document}\t1" for query, document in QRELS.items()]
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]), "utf-8")
    return folder


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[str, str]:
    call_command("rag_eval", *map(str, words))
    told = capsys.readouterr()
    return told.out, told.err


def test_it_prints_a_table(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, "--data", data, "--mode", "bm25")
    lines = out.splitlines()
    assert lines[0] == "plant: 4 documents, 3 queries, words:64"
    assert lines[1].split() == ["mode", "R@1", "R@5", "R@10", "MRR@10", "nDCG@10", "SQL", "ms"]
    assert lines[2].split()[:6] == ["bm25", "1.000", "1.000", "1.000", "1.000", "1.000"]
    assert "embedding" in err
    assert "searching" in err


def test_it_prints_json_and_nothing_else(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "--data", data, "--json")
    found = json.loads(out)
    assert (found["data"], found["mode"], found["model"]) == ("plant", "hybrid", "words:64")
    assert (found["documents"], found["queries"]) == (4, 3)
    assert {"R@1", "R@5", "R@10", "MRR@10", "nDCG@10"} <= found.keys()
    assert found["R@10"] == 1.0


def test_all_modes_are_a_list(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "--data", data, "--json", "--mode", "all")
    assert [run["mode"] for run in json.loads(out)] == ["vector", "bm25", "hybrid"]


def test_a_limit_asks_the_first_queries_only(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = run(capsys, "--data", data, "--json", "--limit", "2")
    assert json.loads(out)["queries"] == 2


def test_queries_of_another_folder_are_asked(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write(tmp_path / "french", queries={"q1": "la pompe", "unjudged": "?"})
    out, _ = run(capsys, "--data", data, "--queries", other, "--json", "--mode", "bm25")
    found = json.loads(out)
    assert (found["data"], found["queries"], found["R@10"]) == ("french on plant", 1, 0.0)
    assert list(models.Store.objects.values_list("name", flat=True)) == ["eval plant"]


def test_the_store_is_kept_for_the_next_run(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "--data", data)
    before = models.Store.objects.get()
    _, err = run(capsys, "--data", data, "--mode", "vector")
    assert models.Store.objects.get().pk == before.pk
    assert "embedding" not in err


def test_the_store_is_nobodys_and_not_public(data: Path) -> None:
    evaluate_folder(data_dir=data)
    store = models.Store.objects.get(name="eval plant")
    assert (store.owner, store.is_public) == (None, False)
    assert not models.Store.objects.readable(Scope.anonymous()).exists()
    assert models.QueryLog.objects.count() == 0


def test_each_passage_is_a_page_and_a_chunk_of_one_file(data: Path) -> None:
    evaluate_folder(data_dir=data)
    file = models.File.objects.get()
    assert [page["label"] for page in file.pages] == list(TEXTS)
    chunks = list(models.Chunk.objects.order_by("ordinal"))
    for page, chunk, (title, text) in zip(file.pages, chunks, TEXTS.values(), strict=True):
        assert chunk.text == f"{title}\n{text}".strip()
        assert file.canonical_text[chunk.char_start : chunk.char_end] == chunk.text
        assert (page["start"], page["end"]) == (chunk.char_start, chunk.char_end)
        assert chunk.page_first == page["number"]
    with file.content.open() as content:
        assert content.read().decode() == file.canonical_text
    assert (file.status, file.n_chunks) == (models.File.Status.COMPLETED, 4)


def test_another_corpus_makes_the_store_anew(data: Path) -> None:
    evaluate_folder(data_dir=data)
    before = models.Store.objects.get().pk
    write(data, texts={**TEXTS, "d5": ("", "A new passage about turbines.")})
    assert evaluate_folder(data_dir=data).n_documents == 5
    store = models.Store.objects.get()
    assert store.pk != before
    found = index_hits(query="turbines", scope=Scope.operator(), stores=[store])
    assert "turbines" in found.hits[0].text


def test_another_model_makes_the_store_anew(data: Path, settings: Any) -> None:
    evaluate_folder(data_dir=data)
    settings.RAG = {**settings.RAG, "EMBEDDING_MODEL": "words:32"}
    assert evaluate_folder(data_dir=data).model == "words:32"
    assert models.Store.objects.get().space.dim == 32


def test_other_terms_make_the_store_anew(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate_folder(data_dir=data)
    before = models.Store.objects.get().pk
    monkeypatch.setattr("rag.services.evaluation.datasets.VERSION", "words/9")
    evaluate_folder(data_dir=data)
    assert models.Store.objects.get().pk != before


@pytest.mark.parametrize("change", [{"enabled": False}, {"file_revision": 2}, {"revision": 2}])
def test_a_change_by_hand_makes_the_store_anew(data: Path, change: dict[str, Any]) -> None:
    evaluate_folder(data_dir=data)
    before = models.Store.objects.get().pk
    models.Chunk.objects.filter(ordinal=2).update(**change)
    evaluate_folder(data_dir=data)
    assert models.Store.objects.get().pk != before


def test_a_store_of_that_name_by_somebody_else_is_left_alone(data: Path) -> None:
    mine = create_store(name="eval plant")
    with pytest.raises(CommandError, match="was not made by an evaluation"):
        call_command("rag_eval", "--data", str(data))
    assert models.Store.objects.get().pk == mine.pk


def test_it_searches_as_everybody_does(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def spy(**values: Any) -> Any:
        seen.append(values)
        return retrieve(**values)

    monkeypatch.setattr("rag.services.evaluation.runs.retrieve", spy)
    run = evaluate_folder(data_dir=data, mode="bm25")
    assert [values["query"] for values in seen] == list(QUERIES.values())
    default = seen[0]["stores"][0].retrieval_settings
    assert seen[0]["settings"] == default.but(mode="keyword", top_k=10)
    assert run.settings_hash == seen[0]["settings"].hash


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--limit", "0"], "The limit is 0"),
        (["--queries", "nowhere"], "nowhere"),
        (["--data", "nowhere"], "nowhere"),
    ],
)
def test_wrong_arguments_get_a_sentence(data: Path, words: list[str], part: str) -> None:
    with pytest.raises(CommandError, match=part):
        call_command("rag_eval", "--data", str(data), *words)
    assert not models.Store.objects.exists()


def test_an_unknown_mode_lists_the_known_ones(data: Path) -> None:
    with pytest.raises(CommandError, match="hybrid"):
        call_command("rag_eval", "--data", str(data), "--mode", "psychic")
