"""A chunk that somebody may change. In: a Scope and an id. Out: its row, or why not."""

from __future__ import annotations

from rag import models
from rag.core.access import Scope
from rag.core.errors import ConflictError, ForbiddenError, NotFoundError
from rag.providers.postgres.locks import keep_store


def editable_chunk(*, scope: Scope, chunk_id: int) -> models.Chunk:
    """Return a chunk with its store and file.

    Raises NotFoundError to who may not read it, ForbiddenError to who only reads it.
    """
    heavy = ("file__canonical_text", "file__pages", "file__blocks")
    chunks = models.Chunk.objects.readable(scope).select_related("store", "file").defer(*heavy)
    chunk = chunks.filter(pk=chunk_id).first()
    if chunk is None:
        raise NotFoundError("There is no chunk {id}.", id=chunk_id)
    if not models.Chunk.objects.editable(scope).filter(pk=chunk_id).exists():
        raise ForbiddenError("You may read “{name}”, not change it.", name=chunk.file.name)
    return chunk


def hold_file(*, file_id: int, store_id: int) -> models.File:
    """Return the file, held until the end of the caller's transaction; NotFoundError when gone.

    The store, its file, then chunks: in the order of all who change them.
    """
    files = models.File.objects.light().select_for_update(no_key=True).filter(pk=file_id)
    file = files.first() if keep_store(store_id) else None
    if file is None:
        raise NotFoundError("The file was deleted meanwhile.")
    return file


def hold_chunk(*, chunk: models.Chunk, expected_revision: int) -> models.Chunk:
    """Return the chunk's row as it is now, held with its file.

    Raises ConflictError when it is at another revision, or was replaced with its file's text.
    """
    hold_file(file_id=chunk.file_id, store_id=chunk.store_id)
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
            now=chunk.revision, seen=expected,
        )  # fmt: skip
