"""Add and delete chunks by hand; both indexes and the statistics follow at commit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Max

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, NotFoundError
from rag.providers.postgres.db.connections import release_db
from rag.providers.postgres.db.locks import lock_file
from rag.providers.postgres.write.purge import purge_chunk_traces
from rag.services.index import mark_dirty, refresh_statistics
from rag.services.ingest import EmbeddedText, clean_chunk_text, embed_chunk_text, index_chunk_text


def add_chunk(
    *, scope: Scope, file_id: int, text: str, by: Any, after: int | None = None
) -> models.Chunk:
    """Return a new live chunk behind the live chunk ``after``, or at the file's beginning.

    It has no span of the file's text, only a place in it, and stays there when the file is read
    anew. Raises NotFoundError, ForbiddenError, InvalidInputError, LimitError. Not to be called in
    a transaction.
    """
    clean = clean_chunk_text(text)
    files = models.File.objects.light().select_related("store").readable(scope)
    file = files.filter(pk=file_id).first()
    if file is None:
        raise NotFoundError("There is no file {id}.", id=file_id)
    file.require_editable(scope)
    release_db()
    written = embed_chunk_text(store=file.store, text=clean)
    with transaction.atomic():
        held = lock_file(file_id=file.pk, store_id=file.store_id)
        chunk = new_chunk(file=held, written=written, by=by, position=_position_after(held, after))
    refresh_statistics(store_id=file.store_id)
    return chunk


def new_chunk(
    *, file: models.File, written: EmbeddedText, by: Any, position: dict[str, Any]
) -> models.Chunk:
    """Return a chunk added to a held file; ``place`` has position, pages and headings."""
    added = models.Chunk.objects.live().filter(file=file, ordinal__gte=models.Chunk.FIRST_ADDED)
    last = added.aggregate(last=Max("ordinal"))["last"]
    start = position["char_start"]
    chunk = models.Chunk.objects.create(
        file=file,
        store_id=file.store_id,
        origin=models.Chunk.Origin.ADDED,
        ordinal=models.Chunk.FIRST_ADDED if last is None else last + 1,
        text=written.text,
        token_count=written.token_count,
        sha256=written.sha256,
        content_type=file.content_type,
        file_revision=file.revision,
        edited_by=by,
        own_start=start,
        char_end=start,
        **position,
    )
    index_chunk_text(chunk=chunk, written=written)
    mark_dirty(file_id=file.pk, n_more=1)
    return chunk


@transaction.atomic
def delete_chunks(*, scope: Scope, chunk_ids: Sequence[int], by: Any) -> int:
    """Delete chunks with their vectors, terms and revisions; return how many.

    What the caller may not edit is passed over. Reading the file again does not bring them back.
    """
    chunks = models.Chunk.objects.editable(scope).filter(pk__in=chunk_ids)
    files = models.File.objects.filter(pk__in=chunks.values("file")).order_by("pk")
    held = list(files.select_for_update(no_key=True).values_list("pk", "store"))
    n_deleted = 0
    for file_id, _ in held:
        rows = list(chunks.filter(file=file_id).select_for_update(no_key=True, of=("self",)))
        models.DroppedSpan.objects.bulk_create(
            models.DroppedSpan(
                file_id=file_id, char_start=row.own_start, char_end=row.char_end, dropped_by=by
            )
            for row in rows
            if row.is_live and row.own_start < row.char_end
        )
        models.Chunk.objects.filter(pk__in=[row.pk for row in rows]).delete()
        purge_chunk_traces([row.pk for row in rows])
        mark_dirty(file_id=file_id, n_more=-sum(row.is_live for row in rows))
        n_deleted += len(rows)
    for store_id in sorted({store_id for _, store_id in held}):
        transaction.on_commit(partial(refresh_statistics, store_id=store_id))
    return n_deleted


def _position_after(file: models.File, after: int | None) -> dict[str, Any]:
    live = models.Chunk.objects.live().filter(file=file).defer("text", "context")
    near = live.order_by("char_end", "ordinal").first() if after is None else None
    if after is not None and (near := live.filter(pk=after).first()) is None:
        raise InvalidInputError(
            "The file has no chunk {id}.", hint="Choose one of its present chunks.", id=after
        )
    if near is None:
        return {"char_start": 0}
    page = near.page_first if after is None else near.page_last
    return {
        "char_start": 0 if after is None else near.char_end,
        "page_first": page,
        "page_last": page,
        "heading_path": near.heading_path,
    }
