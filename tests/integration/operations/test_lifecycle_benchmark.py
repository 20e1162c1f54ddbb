"""The figures of operators' work are measured on a small store, and leave it as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import lifecycle_files, swap, swap_models
from benchmarks.lifecycle_doctor import measure_doctor
from benchmarks.lifecycle_files import measure_deletion
from benchmarks.lifecycle_words import measure_words
from benchmarks.record import Report
from benchmarks.search_world import World, build_world
from benchmarks.spool import Spool
from benchmarks.swap_clients import ClientReport, answer
from benchmarks.synthetic import SyntheticCorpus
from rag import models
from rag.core.plugins import PLUGINS
from rag.providers.postgres.lexical import statistics as stats
from tests.integration.index_desk import ask

N = 60
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def corpus() -> SyntheticCorpus:
    return SyntheticCorpus()


@pytest.fixture
def world(
    fresh_wiring: None, tmp_path: Path, corpus: SyntheticCorpus, monkeypatch: pytest.MonkeyPatch
) -> World:
    monkeypatch.setitem(PLUGINS._found, "embedding", dict(PLUGINS._found["embedding"]))
    spool = Spool(tmp_path, corpus, N)
    questions = [corpus.question(passage) for passage in spool.pick([3, 40])]
    monkeypatch.setattr(swap_models, "_KNOWN", {})
    return build_world(Report("small"), spool, questions)


def words_of(store: models.Store) -> list[tuple[int, int, str]]:
    query = "SELECT chunk_id, len, w::text FROM rag_chunk_lex WHERE store_id = %s ORDER BY 1"
    return ask(query, store.pk)


def values(report: Report) -> dict[str, float]:
    return {figure.name: figure.value for figure in report.figures}


def test_words_and_deletions_are_measured_and_the_store_is_right_afterwards(
    world: World, corpus: SyntheticCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("N_FILES", 2), ("SIZE", 20), ("N_ANSWERS", 50)):
        monkeypatch.setattr(lifecycle_files, name, value)
    before = words_of(world.store)
    report = Report("small")
    measure_doctor(report)
    measure_deletion(report, world, corpus)
    assert words_of(world.store) == before
    world.store.refresh_from_db()
    measure_words(report, world.store)
    told = values(report)
    assert told["doctor: errors in a store that is right"] == 0
    assert told["rows that are left of deleted files"] == 0
    assert told["deleting a file of 20 chunks: p50 ms"] > 0
    rates = [told[name] for name in told if name.startswith("words anew")]
    assert len(rates) == 3
    assert min(rates) > 0
    after = words_of(world.store)
    assert [row[:2] for row in after] == [row[:2] for row in before]
    query = "SELECT key, df FROM rag_term_df WHERE df <> 0 ORDER BY 1"
    said = ask(query)
    stats.recount_statistics(world.store.pk)
    assert ask(query) == said


class AskingHere:
    """Asks each question once when the work is done, in this process."""

    def __init__(self, store_id: int, folder: Path) -> None:
        self._store_id, self._folder = store_id, folder
        self.told = ClientReport()

    def __enter__(self) -> AskingHere:
        return self

    def __exit__(self, *_: object) -> None:
        for query in swap_models.questions_of(self._folder):
            self.told.answers.append((query, answer(self._store_id, query)))
            self.told.times_ms.append(1.0)


def test_a_move_is_measured_and_each_answer_is_one_of_either_space(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swap_models.use_models(tmp_path, world.spool, world.questions)
    monkeypatch.setattr(swap, "ClientLoad", AskingHere)
    monkeypatch.setattr(swap, "AFTER_FLIP_S", 0)
    monkeypatch.setattr(swap, "ask_alone", lambda *_: ClientReport([1.0]))
    report = Report("small")
    swap.measure_move(report, world, tmp_path)
    told = values(report)
    assert told["moving: searches"] == 2
    for name in ("moving: failed", "moving: empty", "answers that are neither space's"):
        assert told[name] == 0
    assert told["recall@10 of the new index"] == 1
    world.store.refresh_from_db()
    assert world.store.space is not None
    assert world.store.space.model == swap_models.NEW
