"""The doctor: each fault that is made is found, said, and repaired where that is safe."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from rag import models
from rag.core.access import Scope
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.vectors import spaces
from rag.services.index.lexical_weights import reweigh_if_drifted
from rag.services.operations import check_index
from rag.services.operations.check_result import CheckResult
from rag.services.operations.doctor import CHECKS, repair, run_checks
from rag.services.search.engine import resolve_targets
from tests.edges.admin_client import use_words_embedder
from tests.factories import DIM, FileFactory, GroupFactory, StoreFactory, publish

pytestmark = pytest.mark.django_db
TEXTS = ("The pump is serviced every month.", "The filter is cleaned.", "水泵每年检修一次。")


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def store() -> models.Store:
    store = StoreFactory()
    publish(FileFactory(store=store, name="manual.txt"), *TEXTS)
    return store


def found(*only: str) -> list[CheckResult]:
    return [
        finding
        for _, _, findings in run_checks(only=only)
        for finding in findings
        if finding.level in ("error", "warning")
    ]


def run(statement: str, *values: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else cursor.rowcount


def mended(finding: CheckResult) -> CheckResult:
    done = repair(finding=finding)
    assert done.level == "fixed", done.todo
    return done


def test_a_sound_store_has_no_findings(store: models.Store) -> None:
    stats.roll_up([store.pk])
    assert [one.check for one in found()] == ["jobs", "weights"]
    reweigh_if_drifted(store_id=store.pk)
    assert [one.check for one in found()] == ["jobs"]
    assert found("jobs")[0].what == "no queue worker is running"


def test_chunks_that_nothing_can_find_are_queued_again(store: models.Store) -> None:
    chunk = models.Chunk.objects.order_by("pk")[0]
    run("DELETE FROM rag_chunk_vec WHERE chunk_id = %s", chunk.pk)
    run("DELETE FROM rag_chunk_lex WHERE chunk_id = %s", chunk.pk)
    vectors, terms = found("chunks")
    assert (vectors.check, terms.check) == ("chunks without vectors", "chunks without terms")
    assert vectors.level == "error" and vectors.facts["chunks"] == 1
    mended(vectors)
    job = run("SELECT args FROM procrastinate_jobs WHERE task_name = 'rag.index_file'")
    assert json.loads(job[0][0])["fresh_vectors"] is True


def test_rows_of_chunks_that_are_gone_are_removed(store: models.Store) -> None:
    stats.roll_up([store.pk])
    chunk = models.Chunk.objects.order_by("pk")[0]
    # Past its triggers, as by a restored dump.
    run("UPDATE rag_chunk SET is_live = false WHERE id = %s", chunk.pk)
    rows = found("rows")
    assert [one.check for one in rows] == ["vectors without chunks", "terms without chunks"]
    for one in rows:
        mended(one)
    assert found("rows") == []
    assert run("SELECT count(*) FROM rag_chunk_vec")[0][0] == len(TEXTS) - 1
    stats.roll_up([store.pk])
    assert found("totals", "frequencies") == []


def test_a_restriction_that_the_index_does_not_know_is_an_error(store: models.Store) -> None:
    file = models.File.objects.get()
    file.restricted_to.add(GroupFactory())
    assert found("restrictions") == []
    run("UPDATE rag_chunk_vec SET restricted = NULL")
    (finding,) = found("restrictions")
    assert finding.level == "error" and finding.facts["files"] == [file.pk]
    mended(finding)
    assert found("restrictions") == []


@pytest.mark.parametrize("table", ["rag_chunk_vec", "rag_chunk_lex"])
def test_an_open_file_that_the_index_hides_is_an_error_too(store: models.Store, table: str) -> None:
    file, group = models.File.objects.get(), GroupFactory()
    closed = FileFactory(store=store, name="closed.txt", restricted=[group])
    publish(closed, "The secret pump.")
    run(f"UPDATE {table} SET restricted = %s", [group.pk])
    (finding,) = found("restrictions")
    assert finding.what == "the index hides 1 files that are restricted to nobody"
    assert (finding.level, finding.facts) == ("error", {"files": [file.pk]})
    # Whoever is in no group finds it again, and the other one still not.
    assert mended(finding).todo == "brought 1 files in line in the index"
    assert found("restrictions") == []
    left = run(f"SELECT file_id, restricted FROM {table} GROUP BY 1, 2 ORDER BY 1")
    assert left == [(file.pk, None), (closed.pk, [group.pk])]


def test_both_ways_of_being_wrong_are_told_apart(store: models.Store) -> None:
    file, group = models.File.objects.get(), GroupFactory()
    closed = FileFactory(store=store, name="closed.txt", restricted=[group])
    chunk = publish(closed, "The secret pump.", "The secret valve.")[0]
    run("UPDATE rag_chunk_lex SET restricted = %s WHERE file_id = %s", [group.pk], file.pk)
    run("UPDATE rag_chunk_vec SET restricted = %s WHERE chunk_id = %s", [group.pk + 1], chunk.pk)
    assert [one.facts["files"] for one in found("restrictions")] == [[closed.pk], [file.pk]]
    # A row without a live chunk is told by another check.
    models.Chunk.objects.filter(file=file).update(is_live=False)
    (finding,) = found("restrictions")
    assert finding.what == "the index does not know whom 1 files are restricted to"


def test_drifted_counts_are_found_and_counted_anew(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats.roll_up([store.pk])
    run("UPDATE rag_term_stat SET df = df + 1 WHERE key IN (SELECT min(key) FROM rag_term_stat)")
    run("UPDATE rag_store SET n_chunks = 7 WHERE id = %s", store.pk)
    (finding,) = found("frequencies")
    assert finding.facts["wrong"] == 1 and finding.how == "exact"
    monkeypatch.setattr("rag.services.operations.check_rows.MAX_EXACT", 0)
    (sampled,) = found("frequencies")
    assert sampled.facts["wrong"] == 1 and sampled.how.startswith("sample of ")
    (total,) = found("totals")
    assert "7 chunks are counted, 3 are there" in total.what
    mended(total)
    assert found("frequencies", "totals") == []


def test_missing_terms_are_seen_in_a_sample_too(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats.roll_up([store.pk])
    monkeypatch.setattr("rag.services.operations.check_rows.MAX_EXACT", 0)
    assert found("frequencies") == []
    run("DELETE FROM rag_term_stat")
    (finding,) = found("frequencies")
    assert finding.facts["wrong"] == finding.facts["terms"] > 5


def test_indexes_that_lack_are_told_and_recall_is_measured(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.RAG = {**settings.RAG, "HNSW_MIN_CHUNKS": 20}
    store = StoreFactory()
    for kind in ("manual", "note"):
        file = FileFactory(store=store, content_type=kind)
        publish(file, *(f"word{n} pump {kind}{n} valve{n % 7}" for n in range(110)))
    models.File.objects.update(n_chunks=110)
    stats.roll_up([store.pk])
    (lacking,) = found("indexes")
    assert index_of(store) in lacking.what and lacking.facts == {
        "space": store.space_id,
        "store": None,
    }
    # A test's transaction cannot build beside writers.
    spaces.build_hnsw(store.live_space_id, DIM, concurrently=False)
    assert found("indexes") == []
    told = [one for _, _, findings in run_checks(only=["recall"]) for one in findings]
    assert [one.facts["filter"] for one in told] == ["no filter", "the type manual"]
    assert all(one.facts["recall"] == 1.0 and "50 vectors" in one.how for one in told)
    monkeypatch.setattr(check_index, "RECALL_S", -1.0)
    late = [one for _, _, findings in run_checks(only=["recall"]) for one in findings]
    assert all(one.level == "note" and "time is up" in one.what for one in late)


def index_of(store: models.Store) -> str:
    return spaces.index_name(store.live_space_id)


def test_an_index_that_finds_too_little_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    from rag.providers.postgres.search import recall as filtered_recall

    settings.RAG = {**settings.RAG, "HNSW_MIN_CHUNKS": 20}
    store = StoreFactory()
    publish(FileFactory(store=store), *(f"word{n} pump part{n}" for n in range(60)))
    stats.roll_up([store.pk])
    spaces.build_hnsw(store.live_space_id, DIM, concurrently=False)
    honest = filtered_recall._hits

    def half(target: Any, vector: np.ndarray, asked: Any) -> set[int]:
        hits = honest(target, vector, asked)
        return set(sorted(hits)[:5]) if target.has_hnsw else hits

    monkeypatch.setattr(filtered_recall, "_hits", half)
    (finding,) = found("recall")
    assert (finding.level, finding.facts["recall"]) == ("warning", 0.5)
    assert resolve_targets(stores=[store], scope=Scope.operator())[0].has_hnsw


def test_jobs_of_dead_workers_and_files_without_a_job_come_back(store: models.Store) -> None:
    file = models.File.objects.get()
    models.File.objects.update(status="processing")
    run(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, priority, status, args, attempts)"
        " VALUES ('index', 'rag.build_indexes', 0, 'doing', '{}', 0)"
    )
    told = found("jobs", "files")
    assert [one.what for one in told] == [
        "1 jobs are in the hands of dead workers",
        "no queue worker is running",
        "1 files wait for a job that is not there",
    ]
    assert mended(told[2]).todo == "brought 2 jobs and files back"
    assert file.pk in [
        json.loads(row[0])["file_id"]
        for row in run("SELECT args FROM procrastinate_jobs WHERE task_name = 'rag.index_file'")
    ]


def test_lost_bytes_and_bytes_of_nobody_are_told(
    store: models.Store, settings: Any, tmp_path: Path
) -> None:
    settings.MEDIA_ROOT = tmp_path
    FileFactory(store=store, name="lost.txt")
    lost = models.File.objects.get(name="lost.txt")
    assert [one.facts["files"] for one in found("bytes")] == [
        list(models.File.objects.exclude(pk=lost.pk).order_by("pk").values_list("pk", flat=True))
    ]
    place = Path(lost.content.path)
    place.with_name("alone.txt").write_text("x")
    place.unlink()
    told = [one for _, _, findings in run_checks(only=["bytes"]) for one in findings]
    assert lost.pk in told[0].facts["files"] and told[0].fix is None
    assert told[1].facts == {"files": 1}
    # It may be an upload at work: only old ones go.
    assert mended(told[1]).todo == "removed 0 old files that belong to nothing"


def test_settings_that_do_not_fit_the_data_are_told(store: models.Store, settings: Any) -> None:
    settings.RAG = {
        **settings.RAG,
        "EMBEDDING_MODEL": "e5:multilingual-e5-small",
        "PRICES": {"a:b": {"input": "much"}},
    }
    models.Store.objects.update(retrieval={"rerank": "endpoint"})
    models.EmbeddingSpace.objects.filter(pk=store.space_id).update(model="openai_compatible:x")
    told = [
        one.what for _, _, findings in run_checks(only=["models", "settings"]) for one in findings
    ]
    assert told == [
        "1 stores stand on openai_compatible:x, new ones on e5:multilingual-e5-small",
        "openai_compatible:x: RAG_OPENAI_BASE_URL is not set",
        'RAG_PRICES names no price for a:b. Write {"input": 0.3, "output": 2.5, "currency": "USD"}.',
        f"store {store.slug} ranks by an endpoint: none is set up",
    ]
    models.EmbeddingSpace.objects.filter(pk=store.space_id).update(dim=DIM + 1)
    assert f"takes other vectors than {DIM + 1}" in found("spaces")[0].what


def test_recognition_that_is_wanted_and_not_installed_is_told(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found("recognition") == []
    monkeypatch.setattr("rag.providers.sandbox.recognizer.find_spec", lambda name: None)
    assert found("recognition") == []
    models.Store.objects.update(ocr=True)
    (finding,) = found("recognition")
    assert finding.level == "error" and finding.facts["stores"] == [store.slug]
    assert "pip install rapidocr" in finding.todo


def test_a_check_or_a_repair_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        run("SELECT 1 FROM no_such_table")

    from django.db import transaction

    monkeypatch.setitem(CHECKS, "jobs", broken)
    with transaction.atomic():
        ((name, _, (finding,)),) = list(run_checks(only=["jobs"]))
        transaction.set_rollback(True)
    assert (name, finding.level) == ("jobs", "error") and "ProgrammingError" in finding.what
    with transaction.atomic():
        kept = repair(finding=CheckResult("x", "error", "wrong", fix=broken))
        transaction.set_rollback(True)
    assert kept.level == "error" and kept.todo.startswith("The repair failed: ProgrammingError")


def test_the_command_tells_repairs_and_leaves_with_a_code(store: models.Store) -> None:
    stats.roll_up([store.pk])
    run("UPDATE rag_store SET n_chunks = 7 WHERE id = %s", store.pk)
    out = io.StringIO()
    with pytest.raises(SystemExit) as left:
        call_command("rag_doctor", only=["totals", "versions"], stdout=out)
    assert left.value.code == 1
    assert "warning totals: store" in out.getvalue() and "[--fix does it]" in out.getvalue()
    out = io.StringIO()
    call_command("rag_doctor", "--fix", "--json", "--only", "totals", stdout=out)
    told = json.loads(out.getvalue())
    assert [one["level"] for one in told["findings"]] == ["fixed"]
    assert set(told["times"]) == {"totals"}
    call_command("rag_doctor", only=["totals"], stdout=io.StringIO())
    run("UPDATE rag_chunk SET is_live = false")
    with pytest.raises(SystemExit) as left:
        call_command("rag_doctor", only=["rows"], stdout=io.StringIO())
    assert left.value.code == 2
    with pytest.raises(CommandError, match="Unknown check"):
        call_command("rag_doctor", only=["health"])
