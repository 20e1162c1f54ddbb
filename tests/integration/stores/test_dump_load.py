"""A store travels: what was dumped is there again, and damage is told before anything stays."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage

from rag import models
from rag.core.errors import ConflictError, DocumentError
from rag.services.chunks.add import add_chunk, delete_chunks
from rag.services.chunks.edit import edit_chunk
from rag.services.files.edit import set_chunks_enabled
from rag.services.ingest.indexing import index_file
from rag.services.stores.dump import dump_store
from rag.services.stores.load import load_store
from tests.factories import GroupFactory, StoreFactory
from tests.integration.index_desk import ask, put, run_job
from tests.integration.move_world import NEW, OPERATOR, Failing, answer, two_models

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("two_models")]
PARTS = (
    "The pump stops at E21.",
    "The valve leaks oil.",
    "The motor runs hot.",
    "The shaft bends.",
)


def store_with_work() -> models.Store:
    """Return a store with two files, on one of which people have worked in every way."""
    store = StoreFactory(
        name="Manuals",
        slug="manuals",
        max_tokens_per_chunk=50,
        max_overlap_tokens=0,
        retrieval={"top_k": 4},
        vocabulary={"product": ["HX-400"]},
        is_public=True,
        readers=[GroupFactory(name="staff")],
    )
    text = "\n\n".join(f"{part} {'More words follow here. ' * 9}" for part in PARTS)
    file = run_job(put(store, text, "a.txt"))
    assert file is not None and file.n_chunks >= 4, file.error
    file.restricted_to.add(GroupFactory(name="board"))
    chunks = list(file.chunks.filter(is_live=True).order_by("ordinal"))
    edit_chunk(
        scope=OPERATOR,
        chunk_id=chunks[0].pk,
        text="The pump never stops.",
        by=None,
        expected_revision=1,
    )
    set_chunks_enabled(scope=OPERATOR, chunk_ids=[chunks[1].pk], enabled=False)
    delete_chunks(scope=OPERATOR, chunk_ids=[chunks[2].pk], by=None)
    add_chunk(scope=OPERATOR, file_id=file.pk, text="The crane is new.", by=None)
    run_job(put(store, "Second file: gaskets.\n", "b.txt"))
    question = store.golden_questions.create(query="When does the pump stop?")
    question.targets.create(file_id=file.pk, chunk_id=chunks[0].pk, grade=2)
    return store


def told(store: models.Store) -> dict[str, Any]:
    """Return all that two stores must share, without ids."""
    store.refresh_from_db()
    chunks = store.chunks.order_by("file__name", "ordinal", "pk")
    files = store.files.order_by("name")
    return {
        "store": (
            store.retrieval,
            store.vocabulary,
            store.is_public,
            store.n_chunks,
            store.sum_len,
        ),
        "groups": list(store.reader_groups.values_list("name", flat=True)),
        "files": list(
            files.values(
                "name",
                "sha256",
                "canonical_text",
                "pages",
                "blocks",
                "n_chunks",
                "revision",
                "restricted_to__name",
            )
        ),
        "bytes": [default_storage.open(str(file.content.name)).read() for file in files],
        "chunks": list(
            chunks.values(
                "text",
                "origin",
                "enabled",
                "is_live",
                "revision",
                "char_start",
                "ordinal",
                "sha256",
            )
        ),
        "revisions": list(
            models.ChunkRevision.objects.filter(chunk__store=store).values("revision", "text")
        ),
        "dropped": list(
            models.DroppedSpan.objects.filter(file__store=store).values("char_start", "char_end")
        ),
        "questions": [
            (q.query, [(t.grade, t.chunk.text if t.chunk else None) for t in q.targets.all()])
            for q in store.golden_questions.all()
        ],
        "index": ask(
            "SELECT l.len, l.enabled, l.restricted, l.is_han FROM rag_chunk_lex l JOIN rag_chunk c ON c.id = l.chunk_id JOIN rag_file f ON f.id = c.file_id WHERE l.store_id = %s ORDER BY f.name, c.ordinal",
            store.pk,
        ),
    }


@pytest.mark.parametrize("has_vectors", [True, False])
def test_a_loaded_store_is_the_dumped_one(tmp_path: Path, has_vectors: bool) -> None:
    store = store_with_work()
    path = tmp_path / "manuals.dump"
    counts = dump_store(store=store, path=path, has_vectors=has_vectors)
    assert (counts["file"], counts["question"]) == (2, 1)
    assert path.stat().st_mode & 0o777 == 0o600
    if has_vectors:
        # No model is asked for what is there.
        Failing.left = 0
    loaded = load_store(path=path, name="Copy")
    assert (loaded.name, loaded.slug) == ("Copy", "copy")
    assert told(loaded) == told(store)
    pairs = ask(
        "SELECT a.embedding::text, b.embedding::text FROM rag_chunk_vec a JOIN rag_chunk x ON x.id = a.chunk_id"
        " JOIN rag_chunk y ON y.store_id = %s AND y.text = x.text AND y.is_live JOIN rag_chunk_vec b ON b.chunk_id = y.id"
        " WHERE a.store_id = %s",
        loaded.pk,
        store.pk,
    )
    assert len(pairs) == loaded.n_chunks
    assert all(first == second for first, second in pairs)
    scores = [[score for _, score in answer(one, "pump stops")] for one in (store, loaded)]
    assert scores[0] == scores[1] != []


def test_a_loaded_file_is_read_anew_with_peoples_work(tmp_path: Path) -> None:
    dump_store(store=store_with_work(), path=tmp_path / "d")
    loaded = load_store(path=tmp_path / "d", name="Copy")
    file = loaded.files.get(name="a.txt")
    before = list(
        file.chunks.filter(is_live=True)
        .order_by("char_end", "ordinal")
        .values_list("text", "enabled")
    )
    index_file(file_id=file.pk)
    after = list(
        file.chunks.filter(is_live=True)
        .order_by("char_end", "ordinal")
        .values_list("text", "enabled")
    )
    assert before == after


def test_a_store_is_loaded_onto_another_model(tmp_path: Path) -> None:
    store = store_with_work()
    dump_store(store=store, path=tmp_path / "d", has_vectors=True)
    loaded = load_store(path=tmp_path / "d", name="Copy", model=NEW)
    assert loaded.space.model == NEW
    n = ask(f"SELECT count(*) FROM rag_chunk_vec_s{loaded.space_id} WHERE store_id = %s", loaded.pk)
    assert n == [(loaded.n_chunks,)]


def test_a_name_that_is_taken_is_told(tmp_path: Path) -> None:
    dump_store(store=store_with_work(), path=tmp_path / "d")
    with pytest.raises(ConflictError, match="cannot be used"):
        load_store(path=tmp_path / "d")


def lines_of(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[:-1],
        lambda lines: lines[:3] + lines[4:],
        lambda lines: lines[1:],
        lambda lines: [b'{"line":"header","format":"citable-store","version":9}\n', *lines[1:]],
        lambda lines: [*lines[:2], b"{nothing\n", *lines[2:]],
        lambda lines: [b"PK\3\4"],
        lambda lines: [line.replace(b'"data": "V', b'"data": "W') for line in lines],
        lambda lines: [line.replace(b'"ordinal": 0', b'"ordinal": "x"') for line in lines],
    ],
)
def test_a_damaged_dump_is_refused_and_leaves_nothing(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "d"
    dump_store(store=store_with_work(), path=path)
    damaged = damage(lines_of(path))
    assert damaged != lines_of(path)
    path.write_bytes(gzip.compress(b"".join(damaged)))
    with pytest.raises(DocumentError):
        load_store(path=path, name="Copy")
    assert not models.Store.objects.filter(name="Copy").exists()


def test_a_dump_of_an_older_version_is_read_with_defaults(tmp_path: Path) -> None:
    path = tmp_path / "d"
    dump_store(store=store_with_work(), path=path)
    header, *rest = lines_of(path)
    old = [header.replace(b'"version": 3', b'"version": 1')]
    assert old[0] != header
    for line in rest:
        told = json.loads(line)
        for name in ("ocr", "reads_hidden_cells", "splitter", "parent_start"):
            told.pop(name, None)
        old.append(json.dumps(told).encode() + b"\n")
    path.write_bytes(gzip.compress(b"".join(old)))
    loaded = load_store(path=path, name="Copy")
    assert (loaded.ocr, loaded.reads_hidden_cells, loaded.n_chunks > 0) == (False, False, True)


def test_a_cut_off_file_and_plain_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d"
    dump_store(store=store_with_work(), path=path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"hello", b""):
        path.write_bytes(content)
        with pytest.raises(DocumentError):
            load_store(path=path, name="Copy")


def test_no_one_but_operators_reads_a_store_before_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump_store(store=store_with_work(), path=tmp_path / "d")
    seen: list[tuple[bool, int]] = []

    def look(n: int) -> None:
        copy = models.Store.objects.get(name="Copy")
        seen.append((copy.is_public, copy.reader_groups.count()))

    load_store(path=tmp_path / "d", name="Copy", on_line=look)
    assert set(seen) == {(False, 0)}


def test_lines_are_json_and_name_no_ids_of_people(tmp_path: Path) -> None:
    dump_store(store=store_with_work(), path=tmp_path / "d")
    for line in lines_of(tmp_path / "d"):
        assert not {"owner", "edited_by", "created_by"} & set(json.loads(line))


def test_bytes_that_went_bad_on_a_disk_are_told(tmp_path: Path) -> None:
    path = tmp_path / "d"
    dump_store(store=store_with_work(), path=path)
    data = bytearray(path.read_bytes())
    # Behind gzip's own head, where its first block begins.
    data[10:74] = b"\xff" * 64
    path.write_bytes(data)
    with pytest.raises(DocumentError, match="no whole dump"):
        load_store(path=path, name="Copy")
    assert not models.Store.objects.filter(name="Copy").exists()


@pytest.mark.parametrize("line", [b"[1]\n", b'"text"\n', b'{"line":"end","counts":3}\n'])
def test_lines_of_another_shape_are_no_dump(tmp_path: Path, line: bytes) -> None:
    header = b'{"line":"header","format":"citable-store","version":2}\n'
    (tmp_path / "d").write_bytes(gzip.compress(header + line))
    with pytest.raises(DocumentError, match="no whole dump"):
        load_store(path=tmp_path / "d")


@pytest.mark.parametrize("missing", ["retrieval", "name", "slug", "space", "has_vectors"])
def test_a_store_that_lacks_a_value_is_told_and_leaves_nothing(
    tmp_path: Path, missing: str
) -> None:
    path = tmp_path / "d"
    dump_store(store=StoreFactory(name="Bare"), path=path)
    lines = lines_of(path)
    store = json.loads(lines[1])
    del store[missing]
    told_store = json.dumps(store).encode() + b"\n"
    path.write_bytes(gzip.compress(b"".join([lines[0], told_store, *lines[2:]])))
    before = models.Store.objects.count()
    with pytest.raises(DocumentError, match=missing):
        load_store(path=path, name="Copy")
    assert models.Store.objects.count() == before


def test_a_store_with_a_value_that_no_store_may_have_is_told(tmp_path: Path) -> None:
    path = tmp_path / "d"
    dump_store(store=StoreFactory(name="Bare"), path=path)
    lines = [
        line.replace(b'"max_tokens_per_chunk": 200', b'"max_tokens_per_chunk": 9999')
        for line in lines_of(path)
    ]
    path.write_bytes(gzip.compress(b"".join(lines)))
    with pytest.raises(DocumentError, match="fits nothing: .*500"):
        load_store(path=path, name="Copy")


def test_a_file_that_was_never_read_is_not_called_completed(tmp_path: Path) -> None:
    store = StoreFactory(name="Manuals")
    read = run_job(put(store, "The pump stops at E21.", "a.txt"))
    unread = put(store, "The valve leaks oil.", "b.txt")
    models.File.objects.filter(pk=unread.pk).update(status="error", error={"message": "broken"})
    assert read is not None and read.status == "completed"
    dump_store(store=store, path=tmp_path / "d")
    loaded = load_store(path=tmp_path / "d", name="Copy")
    found = dict(loaded.files.values_list("name", "status"))
    assert found == {"a.txt": "completed", "b.txt": "idle"}
    # It can be read like any other that waits for somebody to ask for it.
    index_file(file_id=loaded.files.get(name="b.txt").pk)
    assert loaded.files.get(name="b.txt").status == "completed"
