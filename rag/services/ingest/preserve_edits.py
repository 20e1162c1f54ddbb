"""Preserve manual edits across re-ingest: match edited chunks to the new text and keep them.

Edited and disabled chunks keep their passage, id, revisions and vector; added ones keep their
position; deleted ones stay deleted. What matches nothing becomes a conflict for a person.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction
from django.db.models import Q

from rag import models
from rag.core.documents import Chunk, ParsedDocument
from rag.core.errors import ConflictError
from rag.providers.postgres.db.locks import lock_file
from rag.providers.postgres.write.index_rows import delete_index_rows
from rag.providers.postgres.write.staging import remove_staged_rows, staged_spans
from rag.services.ingest.chunk_text import embed_chunk_text, index_chunk_text
from rag.services.ingest.staged_revision import chunk_digest
from rag.stages.chunking.match_chunks import (
    ManualEdit,
    MatchedEdits,
    PlacedEdit,
    free_ordinals,
    match_chunks,
)
from rag.stages.chunking.outline import Outline

_TOUCHED = ~Q(origin=models.Chunk.Origin.PARSED) | Q(enabled=False)
_MOVED = (
    "is_live",
    "ordinal",
    "char_start",
    "own_start",
    "char_end",
    "page_first",
    "page_last",
    "heading_path",
    "block_kinds",
    "parent_start",
    "sha256",
    "origin",
    "file_revision",
)
_ORIGINS = models.Chunk.Origin


def match_edits(
    *, file: models.File, document: ParsedDocument, planned: Collection[int] = ()
) -> MatchedEdits:
    """Return the place of each chunk that was edited, switched off, added or deleted.

    Chunks that ``planned`` names count as such in any case. A file that nobody has touched costs
    two look-ups in indexes.
    """
    touched = edited_chunks(file=file, planned=planned)
    if not touched:
        return MatchedEdits()
    texts = models.File.objects.filter(pk=file.pk).values_list("canonical_text", flat=True)
    return match_chunks(texts.get(), document.text, touched)


def edited_chunks(*, file: models.File, planned: Collection[int] = ()) -> list[ManualEdit]:
    """Return what people did to the file's chunks, where it lies in the present text."""
    chunks = models.Chunk.objects.live().filter(file=file).order_by()
    rows = chunks.filter(_TOUCHED | Q(pk__in=planned)) if planned else chunks.filter(_TOUCHED)
    touched = [
        ManualEdit(pk, start, own, end, chunk_id=pk)
        for pk, start, own, end in rows.values_list("pk", "char_start", "own_start", "char_end")
    ]
    # Deleted passages count downwards, so that no key is that of a chunk.
    touched += [
        ManualEdit(-pk, start, start, end)
        for pk, start, end in file.dropped_spans.values_list("pk", "char_start", "char_end")
    ]
    return touched


class EditPreserver:
    """What is done before and after ``swap_revision``, in the transaction that holds the file."""

    def __init__(
        self, *, file: models.File, document: ParsedDocument, planned: MatchedEdits
    ) -> None:
        """Take the file at its coming revision; the draft was cut around ``planned``."""
        self._file, self._document = file, document
        ids = {one.touched.chunk_id for one in planned.kept if one.touched.chunk_id}
        self._matched = match_edits(file=file, document=document, planned=ids)

    def before(self) -> int:
        """Take kept chunks and their passages out of the swap; return how many chunks stay.

        Raises ConflictError when somebody touched a chunk meanwhile and the draft does not fit it.
        """
        if not self._matched.kept and not self._matched.homeless:
            return 0
        places = {one.touched.key: one for one in (*self._matched.kept, *self._matched.homeless)}
        ordinals, outline = self._ordinals(), Outline(self._document)
        gone = {one.touched.key for one in self._matched.homeless}
        moved: list[models.Chunk] = []
        retired: list[int] = []
        for row in models.Chunk.objects.filter(pk__in=[key for key in places if key > 0]):
            if row.pk not in gone or row.origin == _ORIGINS.ADDED:
                row.ordinal = ordinals.get(row.pk, row.ordinal)
                self._move(row, places[row.pk], outline)
                moved.append(row)
            elif row.origin == _ORIGINS.EDITED:
                retired.append(row.pk)
        models.Chunk.objects.bulk_update(moved, _MOVED, batch_size=200)
        delete_index_rows(retired)
        models.Chunk.objects.filter(pk__in=retired).update(is_live=False)
        spans = self._file.dropped_spans.all()
        spans.filter(pk__in=[-key for key in gone]).delete()
        for one in self._matched.kept:
            if one.touched.chunk_id is None:
                placed = spans.filter(pk=-one.touched.key)
                placed.update(char_start=one.own_start, char_end=one.char_end)
        return len(moved)

    def after(self) -> None:
        """List what has no place; what the file now says itself, word for word, needs none."""
        homeless = {one.touched.key: one.char_start for one in self._matched.homeless}
        texts = models.Chunk.objects.filter(pk__in=homeless)
        for pk, origin, is_live, text in texts.values_list("pk", "origin", "is_live", "text"):
            # The swap keeps a switched-off chunk by its text, wherever that is now.
            is_kept = is_live if origin == _ORIGINS.PARSED else text in self._document.text
            if not is_kept:
                models.ChunkConflict.objects.update_or_create(
                    chunk_id=pk,
                    defaults={
                        "file": self._file,
                        "char_start": homeless[pk],
                        "file_revision": self._file.revision,
                    },
                )

    def _ordinals(self) -> dict[int, int]:
        """Return the ordinal of each kept passage; the draft's rows for it are removed."""
        passages = [one for one in self._matched.kept if not one.touched.is_added]
        room = free_ordinals(staged_spans(self._file.pk), self._matched.holes)
        if room is None:
            raise ConflictError(
                "The file's chunks changed while it was indexed.", hint="Index it again."
            )
        ordinals, unwanted = room
        remove_staged_rows(self._file.pk, unwanted)
        return {one.touched.key: at for one, at in zip(passages, ordinals, strict=True)}

    def _move(self, row: models.Chunk, placed: PlacedEdit, outline: Outline) -> None:
        start, end = placed.char_start, placed.char_end
        row.char_start, row.own_start, row.char_end = start, placed.own_start, end
        row.file_revision = self._file.revision
        # The new passages are cut around it.
        row.parent_start = None
        # Until the swap's step that brings kept rows forward: positions may be traded.
        row.is_live = False
        row.page_first = outline.page_at(start if start < end else max(0, start - 1))
        row.page_last = outline.page_at(max(0, end - 1))
        if row.origin == _ORIGINS.ADDED:
            return
        row.heading_path = list(outline.path(placed.own_start, end))
        row.block_kinds = list(outline.kinds(start, end))
        text = self._document.text[start:end]
        row.sha256 = chunk_digest(Chunk(0, 0, 0, 0, text, 0, context=row.context))
        row.origin = _ORIGINS.PARSED if text == row.text else _ORIGINS.EDITED


def reembed_edits(*, file_id: int) -> int:
    """Embed what people edited, switched off or added; return how many chunks.

    A chunk that changes meanwhile is embedded by whoever changes it.
    """
    touched = ~Q(origin=models.Chunk.Origin.PARSED) | Q(enabled=False)
    chunks = models.Chunk.objects.live().filter(touched, file=file_id).select_related("store")
    n_done = 0
    for chunk in list(chunks.order_by("pk")):
        written = embed_chunk_text(store=chunk.store, text=chunk.text, context=chunk.context)
        with transaction.atomic():
            lock_file(file_id=file_id, store_id=chunk.store_id)
            same = models.Chunk.objects.live().filter(pk=chunk.pk, revision=chunk.revision)
            if same.exists():
                index_chunk_text(chunk=chunk, written=written)
                n_done += 1
    return n_done
