"""Activation of a staged revision: it becomes the file's live one in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from django.db import connection

from rag.core.errors import ConflictError

_CHECK, _UNINDEX, _STEP_BACK, _COME_FORWARD, _CHUNKS, _VECTORS, _TERMS = [
    step.partition("\n")[2]
    for step in (Path(__file__).parent / "swap.sql").read_text("utf-8").split("-- step: ")[1:]
]


@dataclass(frozen=True, slots=True)
class SwapTarget:
    """Where a draft goes; ``revision`` is the one that it becomes."""

    file_id: int
    store_id: int
    space_id: int
    revision: int
    content_type: str


def swap_revision(target: SwapTarget) -> int:
    """Make the draft the file's live revision and return its number of chunks.

    Must run inside the transaction that holds the file's row. Chunks with equal text keep their
    id and enabled flag, and their vector unless the draft brings a new one. Raises ConflictError,
    before anything is changed, when the draft relies on a vector that is gone.
    """
    values: dict[str, int | str] = {
        "file": target.file_id,
        "store": target.store_id,
        "space": target.space_id,
        "revision": target.revision,
        "type": target.content_type,
    }
    with connection.cursor() as cursor:
        cursor.execute(_CHECK, values)
        has_old, n_vanished = cursor.fetchone()
        if n_vanished:
            raise ConflictError(
                "The file's chunks changed while it was indexed.", hint="Index it again."
            )
        among_old = (_UNINDEX, _STEP_BACK) if has_old else ()
        for statement in (*among_old, _COME_FORWARD, _CHUNKS, _VECTORS, _TERMS):
            cursor.execute(statement, values)
        cursor.execute("DELETE FROM rag_chunk_draft WHERE file_id = %s", [target.file_id])
        return int(cursor.rowcount)
