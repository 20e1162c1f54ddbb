"""rag_reindex, rag_move, rag_dump, rag_load and rag_sync as one types them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rag import models
from rag.providers.postgres.vectors.backfill import reindex_lock
from rag.services.ingest.indexing import index_file
from rag.services.reindex.rebuild import PARSERS, is_stale, reindex_files
from rag.services.reindex.runs import start_reindex
from rag.services.reindex.worker import run_reindex
from tests.factories import FileFactory
from tests.fakes.model_plugins import let_be_remote
from tests.integration.index_desk import ask, live, put, run_job
from tests.integration.move_world import (
    NEW,
    OPERATOR,
    Failing,
    filled_store,
    golden,
    start_move,
    two_models,
)

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("two_models")]


def run(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out, stderr=out)
    return out.getvalue()


def test_a_move_is_made_told_rolled_back_and_given_up() -> None:
    store = filled_store(60, slug="house")
    golden(store)
    told = run("rag_reindex", "--store", "house", "--model", NEW)
    assert "embeddings to words:32 (32): swapped" in told
    assert "golden questions: nDCG@10" in told
    assert "swapped" in run("rag_move", "--store", "house")
    assert "ready" in run("rag_move", "--store", "house", "--rollback")
    assert "swapped" in run("rag_move", "--store", "house", "--swap")
    assert "until then --rollback" in run("rag_move", "--store", "house", "--retire")
    run("rag_move", "--store", "house", "--rollback")
    assert "cancelled" in run("rag_move", "--store", "house", "--cancel")
    with pytest.raises(CommandError, match="not moving"):
        run("rag_move", "--store", "house")


def test_a_refused_move_ends_with_an_error_and_force_overrules_it() -> None:
    filled_store(20, slug="house")
    with pytest.raises(CommandError, match="no golden questions"):
        run("rag_reindex", "--store", "house", "--model", NEW)
    with pytest.raises(CommandError, match="--force"):
        run("rag_move", "--store", "house", "--swap")
    assert "swapped" in run("rag_move", "--store", "house", "--force")


def test_a_failed_run_is_resumed() -> None:
    filled_store(200, slug="house")
    Failing.left = 1
    with pytest.raises(CommandError, match="The model is down"):
        run("rag_reindex", "--store", "house", "--model", NEW, "--force")
    assert "failed" in _status()
    Failing.left = None
    assert "swapped" in run("rag_reindex", "--store", "house", "--resume")
    with pytest.raises(CommandError, match="No run"):
        run("rag_reindex", "--store", "house", "--resume")


def _status() -> str:
    out = io.StringIO()
    with pytest.raises(CommandError):
        call_command("rag_reindex", "--store", "house", "--status", stdout=out)
    return out.getvalue()


def test_a_run_in_other_hands_is_told_and_can_be_cancelled() -> None:
    store = filled_store(20, slug="house")
    order = start_move(store)
    with reindex_lock(order.pk), pytest.raises(CommandError, match="another process"):
        run("rag_reindex", "--store", "house", "--model", NEW)
    assert "cancelled" in run("rag_reindex", "--store", "house", "--cancel")


def test_words_are_made_anew_and_left_to_workers() -> None:
    store = filled_store(20, slug="house")
    ask("UPDATE rag_chunk_lex SET len = 99 WHERE store_id = %s RETURNING 1", store.pk)
    assert "rows that differed: 20" in run("rag_reindex", "--store", "house", "--what", "lexical")
    told = run("rag_reindex", "--store", "house", "--what", "lexical", "--no-wait")
    assert "is queued" in told


def test_vectors_are_made_anew_in_place_or_only_where_they_lack() -> None:
    store = filled_store(20, slug="house")
    table = f"rag_chunk_vec_s{store.space_id}"
    right = ask(f"SELECT chunk_id, embedding::text FROM {table} ORDER BY 1")
    ask(f"UPDATE {table} SET embedding = array_fill(1, ARRAY[64])::vector::halfvec RETURNING 1")
    ask(f"DELETE FROM {table} WHERE chunk_id = %s RETURNING 1", right[0][0])
    run("rag_reindex", "--store", "house", "--what", "embeddings", "--stale-only")
    assert ask(f"SELECT chunk_id, embedding::text FROM {table} ORDER BY 1")[0] == right[0]
    assert ask(f"SELECT chunk_id, embedding::text FROM {table} ORDER BY 1") != right
    run("rag_reindex", "--store", "house", "--what", "embeddings")
    assert ask(f"SELECT chunk_id, embedding::text FROM {table} ORDER BY 1") == right


def test_a_dry_run_tells_all_five(monkeypatch: pytest.MonkeyPatch) -> None:
    let_be_remote(monkeypatch, "embedding", "words")
    filled_store(20, slug="house")
    told = run("rag_reindex", "--store", "house", "--model", NEW, "--dry-run")
    assert "2 files, 20 chunks" in told
    assert "no price is known" in told
    assert "time: unknown before it runs" in told
    assert "disk: 0.0 MB on top" in told
    assert not models.ReindexRun.objects.exists()


def test_a_dry_run_counts_only_what_is_stale() -> None:
    store = filled_store(20, slug="house")
    FileFactory(store=store, parser="", status="error")
    dry = ("rag_reindex", "--store", "house", "--dry-run", "--stale-only")
    models.File.objects.exclude(status="error").update(parser=min(PARSERS), n_chunks=10)
    assert "1 files, 0 chunks" in run(*dry)
    assert "0 chunks" in run(*dry, "--what", "embeddings")
    vectors = f"rag_chunk_vec_s{store.space_id}"
    ask(
        f"DELETE FROM {vectors} WHERE chunk_id IN (SELECT chunk_id FROM {vectors} LIMIT 3)"
        " RETURNING 1"
    )
    assert " 3 chunks" in run(*dry, "--what", "embeddings")
    models.Store.objects.update(terms_version=0)
    assert " 20 chunks" in run(*dry, "--what", "lexical")


def test_a_dry_run_leaves_a_file_s_encoding_as_it_is() -> None:
    file = FileFactory(store=filled_store(1, slug="house"), name="a.txt")
    before = file.status
    dry = ("rag_reindex", "--store", "house", "--dry-run", "--file", "a.txt", "--encoding")
    run(*dry, "gb18030")
    file.refresh_from_db()
    assert (file.encoding_override, file.status) == ("", before)
    with pytest.raises(CommandError, match="is no encoding"):
        run(*dry, "klingon")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--status", "--file", "a.txt"), "--file goes with a new run only"),
        (("--cancel", "--force"), "--force goes with a new run only"),
        (("--margin", "0.1"), "--margin goes with --model only"),
        (("--no-swap",), "--no-swap goes with --model only"),
        (("--model", NEW, "--stale-only"), "--stale-only goes with the present model only"),
        (("--workers", "2"), "--workers goes with --what embeddings or lexical only"),
        (("--what", "chunks", "--encoding", "utf-8"), "--encoding goes with --what parse or all"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(words: tuple[str, ...], said: str) -> None:
    filled_store(1, slug="house")
    with pytest.raises(CommandError, match=said):
        run("rag_reindex", "--store", "house", *words)
    assert not models.ReindexRun.objects.exists()


def test_a_store_without_runs_says_so() -> None:
    filled_store(1, slug="house")
    assert run("rag_reindex", "--store", "house", "--status").startswith("No run of “")


def test_chunks_are_cut_anew_from_the_kept_text_without_the_bytes() -> None:
    store = filled_store(2, max_overlap_tokens=0)
    file = run_job(put(store, "# Pumps\n\n" + "The pump stops at noon today. " * 60, "a.md"))
    assert file is not None
    n_before, text = file.n_chunks, file.canonical_text
    Path(file.content.path).unlink()
    models.Store.objects.filter(pk=store.pk).update(max_tokens_per_chunk=50)
    order, _ = start_reindex(scope=OPERATOR, store=store, what="chunks", file_ids=[file.pk])
    assert run_reindex(run_id=order.pk) is True
    index_file(file_id=file.pk, from_text=True)
    file.refresh_from_db()
    assert (file.error, file.canonical_text) == (None, text)
    assert file.n_chunks > n_before
    assert all(chunk.heading_path == ["Pumps"] for chunk in live(file)[1:])
    ask("DELETE FROM procrastinate_jobs RETURNING 1")
    models.File.objects.filter(pk=file.pk).update(status="completed")
    assert run_reindex(run_id=order.pk) is False
    order.refresh_from_db()
    assert (order.state, order.n_done) == ("done", 1)


def test_stale_files_are_those_that_failed_or_were_read_by_older_parsers() -> None:
    store = filled_store(2)
    models.File.objects.update(parser="plain/4")
    old = FileFactory(store=store, parser="plain/1", n_chunks=1)
    failed = FileFactory(store=store, parser="plain/4", status="error")
    word = FileFactory(store=store, parser="xberg/4", kind="doc", n_chunks=1)
    assert set(models.File.objects.filter(is_stale())) == {old, failed, word}
    order, _ = start_reindex(scope=OPERATOR, store=store, what="parse")
    models.ReindexRun.objects.update(options={"only_stale": True})
    order.refresh_from_db()
    reindex_files(run=order)
    assert set(order.file_ids or ()) == {old.pk, failed.pk, word.pk}


def test_every_parser_is_known_by_its_present_name() -> None:
    import re  # for this one look at the sources

    folder = Path(models.__file__).parents[1] / "stages" / "parse"
    said = " ".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    assert set(re.findall(r'"([a-z0-9]+/\d+)"', said)) == PARSERS


def test_a_store_is_dumped_and_loaded(tmp_path: Path) -> None:
    filled_store(20, name="House", slug="house")
    # The factory's bytes are not those that its hash tells.
    models.File.objects.update(content="")
    path = str(tmp_path / "house.dump")
    assert (
        run("rag_dump", path, "--store", "house", "--vectors")
        == "2 files, 20 chunks, 0 golden questions written.\n"
    )
    told = run("rag_load", path, "--name", "Annex")
    assert "“Annex” (annex) has 2 files and 20 chunks, and stands on words:64 (64)." in told
    with pytest.raises(CommandError, match="cannot be used"):
        run("rag_load", path)
    with pytest.raises(CommandError, match="There is no file"):
        run("rag_load", str(tmp_path / "nothing"))
    with pytest.raises(CommandError):
        run("rag_dump", str(tmp_path / "no" / "folder"), "--store", "house")


@pytest.mark.django_db(transaction=True)
def test_a_folder_is_looked_at_and_followed(tmp_path: Path, monkeypatch: Any) -> None:
    filled_store(2, slug="house")
    (tmp_path / "a.txt").write_text("The pump stops.")
    (tmp_path / "b.txt").write_text("The pump stops.")
    told = run("rag_sync", str(tmp_path), "--store", "house", "--dry-run")
    assert told.splitlines() == [
        "new: a.txt",
        "the same bytes as a.txt: b.txt",
        "1 new, 0 changed, 0 renamed, 0 deleted, 0 the same.",
    ]
    assert "new: a.txt" in run("rag_sync", str(tmp_path), "--store", "house", "--no-wait")
    assert models.File.objects.get(name="a.txt").metadata == {
        "sync": tmp_path.name,
        "path": "a.txt",
    }
    (tmp_path / "a.txt").unlink()
    (tmp_path / "b.txt").unlink()
    with pytest.raises(CommandError, match="would be deleted"):
        run("rag_sync", str(tmp_path), "--store", "house")
    run("rag_sync", str(tmp_path), "--store", "house", "--force")
    assert not models.File.objects.filter(name="a.txt").exists()
    with pytest.raises(CommandError, match="no folder"):
        run("rag_sync", str(tmp_path / "gone"), "--store", "house")
