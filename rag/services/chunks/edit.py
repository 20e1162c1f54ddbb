"""Edit a chunk with optimistic locking: new text, embedded and indexed in one transaction.

Searches find the new text at commit and never the old one; citations of the old one still open,
and earlier revisions can be listed and restored.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from rag import models
from rag.core.access import Scope
from rag.core.errors import ConflictError, NotFoundError
from rag.providers.postgres.db.connections import release_db
from rag.providers.postgres.db.locks import lock_file
from rag.services.index import mark_dirty, refresh_statistics
from rag.services.ingest import EmbeddedText, clean_chunk_text, embed_chunk_text, index_chunk_text

_KEPT = ("text", "char_start", "char_end", "page_first", "page_last", "file_revision")
_WRITTEN = ("text", "revision", "token_count", "origin", "edited_by")


def editable_chunk(*, scope: Scope, chunk_id: int) -> models.Chunk:
    """Return a chunk with its store and file.

    Raises NotFoundError to who may not read it, ForbiddenError to who only reads it.
    """
    heavy = ("file__canonical_text", "file__pages", "file__blocks")
    chunks = models.Chunk.objects.readable(scope).select_related("store", "file").defer(*heavy)
    chunk = chunks.filter(pk=chunk_id).first()
    if chunk is None:
        raise NotFoundError("There is no chunk {id}.", id=chunk_id)
    chunk.file.require_editable(scope)
    return chunk


def lock_chunk(*, chunk: models.Chunk, expected_revision: int) -> models.Chunk:
    """Return the chunk's row as it is now, held with its file.

    Raises ConflictError when it is at another revision, or was replaced with its file's text.
    """
    lock_file(file_id=chunk.file_id, store_id=chunk.store_id)
    row = models.Chunk.objects.select_for_update(no_key=True).filter(pk=chunk.pk).first()
    if row is None:
        raise NotFoundError("There is no chunk {id}.", id=chunk.pk)
    check_revision(row, expected_revision)
    return row


def check_revision(chunk: models.Chunk, expected: int) -> None:
    """Raise ConflictError unless the chunk is live and says what its editor saw."""
    if not chunk.is_live:
        raise ConflictError(
            "The file was read anew meanwhile and no longer has this chunk.",
            hint="Look at the file's present chunks.",
        )
    if chunk.revision != expected:
        raise ConflictError(
            "Somebody else changed this chunk meanwhile: it is at revision {now}, you saw {seen}.",
            hint="Look at the new text, then save yours again.",
            now=chunk.revision,
            seen=expected,
        )


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
    written = embed_chunk_text(store=chunk.store, text=clean, context=chunk.context)
    with transaction.atomic():
        row = lock_chunk(chunk=chunk, expected_revision=expected_revision)
        kept = {name: getattr(row, name) for name in _KEPT}
        models.ChunkRevision.objects.create(
            chunk=row, revision=row.revision, replaced_by=by, **kept
        )
        _rewrite(row, written, by)
        index_chunk_text(chunk=row, written=written)
        mark_dirty(file_id=row.file_id)
    refresh_statistics(store_id=row.store_id)
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
        scope=scope, chunk_id=chunk_id, text=before.text, by=by, expected_revision=expected_revision
    )


def _rewrite(row: models.Chunk, written: EmbeddedText, by: Any) -> None:
    origins = models.Chunk.Origin
    row.text, row.token_count, row.edited_by = written.text, written.token_count, by
    row.revision += 1
    if row.origin != origins.ADDED:
        # Who brings back what the file says has undone all edits.
        is_parsed = written.sha256 == row.sha256
        row.origin = origins.PARSED if is_parsed else origins.EDITED
    row.save(update_fields=_WRITTEN)


MAX_REVISIONS = 200


@dataclass(frozen=True, slots=True)
class Revision:
    """A text that a chunk had, and who replaced it when; nobody has the present one."""

    revision: int
    text: str
    replaced_by: str = ""
    replaced_at: datetime | None = None


def chunk_revisions(*, scope: Scope, chunk_id: int) -> list[Revision]:
    """Return the chunk's texts, the present one first, at most 200 before it.

    Raises NotFoundError to who may not read the chunk.
    """
    chunk = models.Chunk.objects.readable(scope).filter(pk=chunk_id).first()
    if chunk is None:
        raise NotFoundError("There is no chunk {id}.", id=chunk_id)
    before = models.ChunkRevision.objects.filter(chunk=chunk).select_related("replaced_by")
    return [
        Revision(chunk.revision, chunk.text),
        *(
            Revision(one.revision, one.text, str(one.replaced_by or ""), one.replaced_at)
            for one in before.order_by("-revision")[:MAX_REVISIONS]
        ),
    ]
