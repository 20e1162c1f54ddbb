"""rag_ingest, rag_reindex and rag_demo as one types them: real worker, real parser, real rows."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.access import Scope
from rag.services.ingest import staged_revision as draft_service
from tests.edges.admin_client import use_words_embedder
from tests.index_hits import index_hits

pytestmark = pytest.mark.django_db(transaction=True)

OPERATOR = Scope.operator()


@pytest.fixture(autouse=True)
def _words(fresh_wiring: None, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    use_words_embedder(monkeypatch, settings)


def run(command: str, *arguments: Any, **options: Any) -> str:
    """Return what a command says, errors included; a CommandError passes."""
    said = io.StringIO()
    call_command(command, *map(str, arguments), stdout=said, stderr=said, **options)
    return said.getvalue()


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def ingest(*paths: Path | str, store: str = "shop", **options: Any) -> str:
    return run("rag_ingest", *paths, "--store", store, "--create", **options)


def names() -> list[str]:
    return list(models.File.objects.order_by("name").values_list("name", flat=True))


def found(query: str) -> list[str]:
    store = models.Store.objects.get(slug="shop")
    return [hit.text for hit in index_hits(query=query, scope=OPERATOR, stores=[store]).hits]


def test_a_folder_is_taken_in_and_searchable(tmp_path: Path) -> None:
    write(tmp_path / "a.md", "# Pumps\n\nThe pump stops at fault E21.\n")
    write(tmp_path / "deep" / "b.txt", "储物柜钥匙丢失的，换锁费 45 元。")
    write(tmp_path / ".hidden.txt", "not this one")
    assert "2 files with 2 chunks are searchable." in ingest(tmp_path)
    assert names() == ["a.md", "b.txt"]
    assert "E21" in found("fault E21")[0]
    assert "45 元" in found("换锁费")[0]


def test_globs_zips_and_a_list_are_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.txt", "b.txt", "c.md"):
        write(tmp_path / name, f"The text of {name}.")
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as packed:
        packed.writestr("inside/d.txt", "The text of d.")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{tmp_path}/*.txt\n\n{tmp_path}/d.zip\n"))
    assert "3 files" in ingest("-")
    assert names() == ["a.txt", "b.txt", "inside/d.txt"]


def test_the_same_bytes_twice_are_one_file(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "The pump stops.")
    write(tmp_path / "copy.txt", "The pump stops.")
    said = ingest(tmp_path)
    assert "copy.txt: the same bytes are already there as “a.txt”." in said
    assert "1 files with 1 chunks are searchable." in said
    assert "already there" in ingest(tmp_path / "a.txt")
    assert names() == ["a.txt"]


def test_bad_files_are_told_and_the_others_taken(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "The pump stops.")
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.7\nbroken")
    (tmp_path / "empty.txt").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("zero.txt", b"0" * 5_000_000)
    said = io.StringIO()
    with pytest.raises(CommandError, match="3 of the files could not be indexed"):
        call_command(
            "rag_ingest", str(tmp_path), store="shop", create=True, stdout=said, stderr=said
        )
    for name in ("bad.pdf: ", "empty.txt: ", "bomb.zip: “bomb.zip” would unpack"):
        assert name in said.getvalue()
    assert "1 files with 1 chunks are searchable." in said.getvalue()
    assert found("pump") == ["The pump stops."]


def test_a_text_is_read_by_the_encoding_that_one_names(tmp_path: Path) -> None:
    text = "Насос проверяют каждое утро до начала смены."
    (tmp_path / "a.txt").write_bytes(text.encode("mac_cyrillic"))
    ingest(tmp_path / "a.txt", encoding="mac_cyrillic")
    assert found("Насос") == [text]
    run("rag_reindex", "--store", "shop", "--file", "a.txt", "--encoding", "cp1251")
    assert found("Насос") != [text]
    # Taken in again with the right one, and told from the bytes at last.
    ingest(tmp_path / "a.txt", encoding="mac_cyrillic")
    assert found("Насос") == [text]
    run("rag_reindex", "--store", "shop", "--file", "a.txt", "--encoding", "auto")
    assert models.File.objects.get().encoding_override == ""


def test_an_unknown_encoding_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "The pump stops.")
    for options in ({}, {"dry_run": True}):
        with pytest.raises(CommandError, match="“klingon” is no encoding of texts"):
            ingest(tmp_path, encoding="klingon", **options)
    assert names() == []
    ingest(tmp_path)
    with pytest.raises(CommandError, match="--encoding is for named files"):
        run("rag_reindex", "--store", "shop", "--encoding", "utf-8")


def test_a_wrong_path_takes_nothing_in(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "The pump stops.")
    with pytest.raises(CommandError, match=r"“nowhere.txt” does not exist"):
        ingest(tmp_path / "a.txt", "nowhere.txt")
    assert names() == []


def test_an_unknown_store_is_an_error_that_lists_the_known(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "The pump stops.")
    ingest(path)
    with pytest.raises(CommandError, match=r"There is no store “shpo”. Known: shop"):
        run("rag_ingest", path, "--store", "shpo")
    with pytest.raises(CommandError, match="no store"):
        run("rag_reindex", "--store", "shpo")


def test_a_dry_run_counts_and_keeps_nothing(tmp_path: Path) -> None:
    write(tmp_path / "long.txt", "The pump stops at once. " * 2000)
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.7\nbroken")
    said = ingest(tmp_path, dry_run=True)
    assert said.startswith("2 files, 0.0 MB: about ")
    assert "refused: bad.pdf: " in said
    about = int(said.split("about ")[1].split()[0])
    assert not models.File.objects.exists()
    assert not ProcrastinateJob.objects.exists()
    ingest(tmp_path / "long.txt")
    assert models.File.objects.get().n_chunks == pytest.approx(about, rel=0.1)


def test_a_dry_run_makes_no_store(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "The pump stops.")
    assert ingest(tmp_path, dry_run=True).startswith("1 files, 0.0 MB: about 1 chunks")
    assert not models.Store.objects.exists()
    with pytest.raises(CommandError, match="stdin: give it alone"):
        ingest("-", tmp_path)


def test_without_waiting_the_work_is_left_to_workers(tmp_path: Path) -> None:
    said = ingest(write(tmp_path / "a.txt", "The pump stops."), no_wait=True)
    assert said == "1 files queued.\n"
    assert models.File.objects.get().status == "processing"
    assert ProcrastinateJob.objects.get().status == "todo"
    # Run again, it goes on where it stopped.
    assert "1 files with 1 chunks" in ingest(tmp_path / "a.txt")


def test_a_reindex_keeps_unchanged_chunks_and_their_ids(tmp_path: Path) -> None:
    ingest(write(tmp_path / "a.txt", "The pump stops."), write(tmp_path / "b.txt", "The valve."))
    before = dict(models.Chunk.objects.filter(is_live=True).values_list("text", "pk"))
    assert "2 files with 2 chunks are searchable." in run("rag_reindex", "--store", "shop")
    assert dict(models.Chunk.objects.filter(is_live=True).values_list("text", "pk")) == before
    assert set(models.File.objects.values_list("revision", flat=True)) == {2}


def test_a_reindex_embeds_only_when_fresh_vectors_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(write(tmp_path / "a.txt", "The pump stops."))
    embedded: list[int] = []
    embed = draft_service._embed

    def counting(embedder: Any, chunks: Any) -> Any:
        embedded.append(len(chunks))
        return embed(embedder, chunks)

    monkeypatch.setattr(draft_service, "_embed", counting)
    run("rag_reindex", "--store", "shop")
    assert sum(embedded) == 0
    run("rag_reindex", "--store", "shop", "--fresh")
    assert sum(embedded) == 1
    assert found("pump") == ["The pump stops."]


def test_a_reindex_takes_one_file_by_name_or_id(tmp_path: Path) -> None:
    ingest(write(tmp_path / "a.txt", "The pump stops."), write(tmp_path / "b.txt", "The valve."))
    file = models.File.objects.get(name="b.txt")
    run("rag_reindex", "--store", "shop", "--file", "a.txt")
    run("rag_reindex", "--store", "shop", "--file", str(file.pk))
    revisions = models.File.objects.order_by("name").values_list("revision", flat=True)
    assert list(revisions) == [2, 2]
    for wrong in ("c.txt", "0", "9" * 30):
        with pytest.raises(CommandError, match="has no file"):
            run("rag_reindex", "--store", "shop", "--file", wrong)


def test_the_old_revision_serves_until_the_swap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(write(tmp_path / "a.txt", "The pump stops. " * 100))
    models.Store.objects.update(max_tokens_per_chunk=50, max_overlap_tokens=0)
    seen: list[tuple[int, str, int]] = []
    embed = draft_service._embed

    def looking(embedder: Any, chunks: Any) -> Any:
        file = models.File.objects.get()
        seen.append((file.revision, file.status, len(found("pump"))))
        return embed(embedder, chunks)

    monkeypatch.setattr(draft_service, "_embed", looking)
    n_before = models.File.objects.get().n_chunks
    run("rag_reindex", "--store", "shop", "--fresh")
    file = models.File.objects.get()
    assert {(revision, status) for revision, status, _ in seen} == {(1, "processing")}
    assert all(n_found > 0 for _, _, n_found in seen)
    assert (file.revision, file.status) == (2, "completed")
    assert file.n_chunks > n_before


def test_a_failed_reindex_leaves_the_old_revision(tmp_path: Path) -> None:
    ingest(write(tmp_path / "a.txt", "The pump stops."))
    file = models.File.objects.get()
    Path(file.content.path).unlink()
    with pytest.raises(CommandError, match="1 of the files could not be indexed"):
        run("rag_reindex", "--store", "shop")
    file.refresh_from_db()
    assert (file.status, file.revision) == ("error", 1)
    assert found("pump") == ["The pump stops."]


def test_a_reindex_may_be_left_to_workers(tmp_path: Path) -> None:
    ingest(write(tmp_path / "a.txt", "The pump stops."))
    assert run("rag_reindex", "--store", "shop", no_wait=True) == "1 files queued.\n"


def test_an_answer_is_printed_with_its_citations(tmp_path: Path) -> None:
    ingest(write(tmp_path / "a.txt", "The pump stops at fault E21."))
    said = run("rag_ask", "When does the pump stop?", "--store", "shop")
    assert said.startswith(
        "1 of 1 statement found in the sources\nThe pump stops at fault E21.[1]\n"
    )
    assert "[1] a.txt: “The pump stops at fault E21.” — verified" in said
    assert "No chat model is configured" in said


def test_a_streamed_answer_ends_with_its_citations(tmp_path: Path) -> None:
    ingest(write(tmp_path / "a.txt", "The pump stops at fault E21."))
    said = run("rag_ask", "When does the pump stop?", "--store", "shop", "--stream")
    assert "[1] a.txt: “The pump stops at fault E21.” — verified" in said
    assert said.count("The pump stops at fault E21.") == 2


def test_an_answer_in_json_holds_everything(tmp_path: Path) -> None:
    ingest(write(tmp_path / "a.txt", "水泵在 E21 时停机。"))
    for flags in (("--json",), ("--json", "--stream")):
        answer = json.loads(run("rag_ask", "水泵什么时候停机？", "--store", "shop", *flags))
        assert answer["question"] == "水泵什么时候停机？"
        assert answer["citations"][0]["verdict"] == "verified"
        assert answer["result"]["hits"][0]["text"] == "水泵在 E21 时停机。"


def test_wrong_questions_are_told(tmp_path: Path) -> None:
    ingest(write(tmp_path / "a.txt", "The pump stops."))
    for arguments, message in (
        ((" ", "--store", "shop"), "The query is empty"),
        (("x", "--store", "none"), "There is no store “none”"),
        (("x", "--store", "shop", "--mode", "magic"), "Unknown retrieval mode “magic”"),
        (("x", "--store", "shop", "--top-k", "0"), "top_k is 0"),
        (("x", "--store", "shop", "--model", "magic:x"), "Unknown chat provider “magic”"),
    ):
        with pytest.raises(CommandError, match=message):
            run("rag_ask", *arguments)


def test_a_question_to_an_empty_store_finds_nothing(tmp_path: Path) -> None:
    ingest(tmp_path)
    assert "Nothing relevant was found" in run("rag_ask", "pump?", "--store", "shop")
