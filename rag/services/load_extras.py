"""What belongs to chunks and files in a dump. In: a line and the new ids. Out: a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag import models
from rag.services.dump_format import REVISION_FIELDS


def take_extra(
    line: Mapping[str, Any], store: models.Store, files: Mapping[int, int],
    chunks: Mapping[int, int],
) -> None:  # fmt: skip
    """Write a revision, deleted passage, conflict or golden question; KeyError for other kinds.

    ``files`` and ``chunks`` map the ids of the dump to those of the new rows.
    """
    _TAKERS[line["line"]](line, store, files, chunks)


def _revision(line: Any, store: Any, files: Any, chunks: Any) -> None:
    values = {name: line[name] for name in REVISION_FIELDS if name != "chunk_id"}
    models.ChunkRevision.objects.create(chunk_id=chunks[line["chunk_id"]], **values)


def _dropped(line: Any, store: Any, files: Any, chunks: Any) -> None:
    models.DroppedSpan.objects.create(
        file_id=files[line["file_id"]], char_start=line["char_start"], char_end=line["char_end"]
    )


def _conflict(line: Any, store: Any, files: Any, chunks: Any) -> None:
    models.ChunkConflict.objects.create(
        file_id=files[line["file_id"]], chunk_id=chunks[line["chunk_id"]],
        char_start=line["char_start"], file_revision=line["file_revision"],
    )  # fmt: skip


def _question(line: Any, store: Any, files: Any, chunks: Any) -> None:
    values = {name: line[name] for name in ("query", "origin", "enabled", "note")}
    question = models.GoldenQuestion.objects.create(store=store, **values)
    for target in line["targets"]:
        chunk_id = target["chunk_id"] and chunks[target["chunk_id"]]
        question.targets.create(
            file_id=files[target["file_id"]], chunk_id=chunk_id, grade=target["grade"]
        )


_TAKERS = {
    "revision": _revision, "dropped": _dropped, "conflict": _conflict, "question": _question,
}  # fmt: skip
