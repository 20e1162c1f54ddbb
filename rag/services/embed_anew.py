"""Chunks that no draft brings get a new vector too. In: a file. Out: rows in both indexes."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q

from rag import models
from rag.services.chunk_text import index_text, write_text
from rag.services.held_chunk import hold_file


def embed_anew(*, file_id: int) -> int:
    """Embed what people edited, switched off or added; return how many chunks.

    A chunk that changes meanwhile is embedded by whoever changes it.
    """
    touched = ~Q(origin=models.Chunk.Origin.PARSED) | Q(enabled=False)
    chunks = models.Chunk.objects.live().filter(touched, file=file_id).select_related("store")
    n_done = 0
    for chunk in list(chunks.order_by("pk")):
        written = write_text(store=chunk.store, text=chunk.text, context=chunk.context)
        with transaction.atomic():
            hold_file(file_id=file_id, store_id=chunk.store_id)
            same = models.Chunk.objects.live().filter(pk=chunk.pk, revision=chunk.revision)
            if same.exists():
                index_text(chunk=chunk, written=written)
                n_done += 1
    return n_done
