"""Where people's work on a file goes in its new text. In: file and document. Out: places."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Q

from rag import models
from rag.core.documents import ParsedDocument
from rag.stages.match_chunks import Matched, Touched, match_chunks

_TOUCHED = ~Q(origin=models.Chunk.Origin.PARSED) | Q(enabled=False)


def match_file(
    *, file: models.File, document: ParsedDocument, planned: Collection[int] = ()
) -> Matched:
    """Return the place of each chunk that was edited, switched off, added or deleted.

    Chunks that ``planned`` names count as such in any case. A file that nobody has touched costs
    two look-ups in indexes.
    """
    touched = touched_chunks(file=file, planned=planned)
    if not touched:
        return Matched()
    texts = models.File.objects.filter(pk=file.pk).values_list("canonical_text", flat=True)
    return match_chunks(texts.get(), document.text, touched)


def touched_chunks(*, file: models.File, planned: Collection[int] = ()) -> list[Touched]:
    """Return what people did to the file's chunks, where it lies in the present text."""
    chunks = models.Chunk.objects.live().filter(file=file).order_by()
    rows = chunks.filter(_TOUCHED | Q(pk__in=planned)) if planned else chunks.filter(_TOUCHED)
    touched = [
        Touched(pk, start, own, end, chunk_id=pk)
        for pk, start, own, end in rows.values_list("pk", "char_start", "own_start", "char_end")
    ]
    # Deleted passages count downwards, so that no key is that of a chunk.
    touched += [
        Touched(-pk, start, start, end)
        for pk, start, end in file.dropped_spans.values_list("pk", "char_start", "char_end")
    ]
    return touched
