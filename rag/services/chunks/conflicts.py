"""Edit conflicts after a re-ingest: keep the text as a chunk, move it into one, or discard it."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from rag import models
from rag.core.access import Scope
from rag.core.errors import ConflictError, InvalidInputError, NotFoundError
from rag.providers.postgres.db.connections import release_db
from rag.providers.postgres.db.locks import lock_file
from rag.services.chunks.add import delete_chunks, new_chunk
from rag.services.chunks.edit import edit_chunk
from rag.services.index import refresh_statistics
from rag.services.ingest import embed_chunk_text


def keep_conflict(*, scope: Scope, conflict_id: int, by: Any) -> models.Chunk:
    """Return a live chunk with the text, at the place where it may belong now.

    What was added is live already and only leaves the list. Raises NotFoundError, ForbiddenError,
    InvalidInputError for a text that was switched off, and LimitError where the store's model takes
    less than that text. Not to be called in a transaction.
    """
    conflict = _editable_conflict(scope, conflict_id)
    chunk = conflict.chunk
    if not chunk.enabled:
        raise InvalidInputError("A text that was switched off needs no place.", hint="Drop it.")
    if chunk.is_live:
        conflict.delete()
        return chunk
    release_db()
    written = embed_chunk_text(store=chunk.store, text=chunk.text)
    with transaction.atomic():
        file = lock_file(file_id=conflict.file_id, store_id=chunk.store_id)
        if not models.ChunkConflict.objects.filter(pk=conflict_id).delete()[0]:
            raise ConflictError("Somebody else has decided this meanwhile.")
        near = neighbour_chunk(conflict=conflict)
        pages = near.page_last if near else None
        position = {
            "char_start": near.char_end if near else 0,
            "page_first": pages,
            "page_last": pages,
            "heading_path": near.heading_path if near else [],
        }
        made = new_chunk(file=file, written=written, by=by, position=position)
    refresh_statistics(store_id=chunk.store_id)
    return made


def move_conflict(
    *, scope: Scope, conflict_id: int, chunk_id: int, by: Any, expected_revision: int
) -> models.Chunk:
    """Return the file's live chunk ``chunk_id`` with the conflict's text in place of its own.

    Raises as ``edit_chunk`` does, and NotFoundError for a chunk of another file.
    """
    conflict = _editable_conflict(scope, conflict_id)
    live = models.Chunk.objects.live().filter(pk=chunk_id, file=conflict.file_id)
    if conflict.chunk_id == chunk_id or not live.exists():
        raise NotFoundError("There is no chunk {id}.", id=chunk_id)
    edited = edit_chunk(
        scope=scope,
        chunk_id=chunk_id,
        text=conflict.chunk.text,
        by=by,
        expected_revision=expected_revision,
    )
    if conflict.chunk.is_live:
        delete_chunks(scope=scope, chunk_ids=[conflict.chunk_id], by=by)
    conflict.delete()
    return edited


def discard_conflict(*, scope: Scope, conflict_id: int, by: Any) -> None:
    """Give the work up: what was added is deleted, an edited text stays for its citations only.

    Raises NotFoundError and ForbiddenError.
    """
    conflict = _editable_conflict(scope, conflict_id)
    if conflict.chunk.is_live:
        delete_chunks(scope=scope, chunk_ids=[conflict.chunk_id], by=by)
    conflict.delete()


def neighbour_chunk(*, conflict: models.ChunkConflict) -> models.Chunk | None:
    """Return the file's live chunk at or before the place where the text may belong now."""
    live = models.Chunk.objects.live().filter(file=conflict.file_id).exclude(pk=conflict.chunk_id)
    spans = live.exclude(origin=models.Chunk.Origin.ADDED).filter(
        own_start__lte=conflict.char_start
    )
    return spans.order_by("-char_end", "-ordinal").first()


def _editable_conflict(scope: Scope, conflict_id: int) -> models.ChunkConflict:
    rows = models.ChunkConflict.objects.select_related("chunk__store", "file").defer(
        "file__canonical_text", "file__pages", "file__blocks"
    )
    readable = models.File.objects.readable(scope)
    conflict = rows.filter(pk=conflict_id, file__in=readable.values("pk")).first()
    if conflict is None:
        raise NotFoundError("There is no conflict {id}.", id=conflict_id)
    conflict.file.require_editable(scope)
    return conflict
