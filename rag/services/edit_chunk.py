"""A chunk gets another text. In: the text and the revision that its editor saw. Out: the chunk.

Searches find the new text at commit and never the old one; citations of the old one open.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from rag import models
from rag.core.access import Scope
from rag.core.errors import NotFoundError
from rag.providers.postgres.connections import release_db
from rag.services.chunk_text import WrittenText, clean_chunk_text, index_text, write_text
from rag.services.held_chunk import check_revision, editable_chunk, hold_chunk
from rag.services.settle_changes import note_changes, settle

_KEPT = ("text", "char_start", "char_end", "page_first", "page_last", "file_revision")
_WRITTEN = ("text", "revision", "token_count", "origin", "edited_by")


def edit_chunk(
    *, scope: Scope, chunk_id: int, text: str, by: Any, expected_revision: int
) -> models.Chunk:
    """Return the chunk with its new text, embedded; the same text is no change.

    ``by`` is the user. Raises NotFoundError, ForbiddenError, InvalidInputError for a blank text,
    LimitError for a long one, and ConflictError when somebody else changed the chunk meanwhile.
    Not to be called in a transaction: the model works outside of one.
    """
    clean = clean_chunk_text(text)
    chunk = editable_chunk(scope=scope, chunk_id=chunk_id)
    check_revision(chunk, expected_revision)
    if clean == chunk.text:
        return chunk
    release_db()
    written = write_text(store=chunk.store, text=clean, context=chunk.context)
    with transaction.atomic():
        row = hold_chunk(chunk=chunk, expected_revision=expected_revision)
        _keep_revision(row, by)
        _rewrite(row, written, by)
        index_text(chunk=row, written=written)
        note_changes(file_id=row.file_id)
    settle(store_id=row.store_id)
    return row


def restore_revision(
    *, scope: Scope, chunk_id: int, revision: int, by: Any, expected_revision: int
) -> models.Chunk:
    """Return the chunk with the text of an earlier revision, as a new one.

    Raises as ``edit_chunk`` does, and NotFoundError for a revision that is not kept.
    """
    editable_chunk(scope=scope, chunk_id=chunk_id)
    before = models.ChunkRevision.objects.filter(chunk=chunk_id, revision=revision).first()
    if before is None:
        raise NotFoundError("The chunk has no revision {revision}.", revision=revision)
    return edit_chunk(
        scope=scope, chunk_id=chunk_id, text=before.text, by=by,
        expected_revision=expected_revision,
    )  # fmt: skip


def _keep_revision(row: models.Chunk, by: Any) -> None:
    kept = {name: getattr(row, name) for name in _KEPT}
    models.ChunkRevision.objects.create(chunk=row, revision=row.revision, replaced_by=by, **kept)


def _rewrite(row: models.Chunk, written: WrittenText, by: Any) -> None:
    origins = models.Chunk.Origin
    row.text, row.token_count, row.edited_by = written.text, written.token_count, by
    row.revision += 1
    if row.origin != origins.ADDED:
        # Who brings back what the file says has undone all edits.
        is_parsed = written.sha256 == row.sha256
        row.origin = origins.PARSED if is_parsed else origins.EDITED
    row.save(update_fields=_WRITTEN)
