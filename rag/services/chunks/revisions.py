"""Chunk revisions: the earlier texts of a chunk and the diff of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rag import models
from rag.core.access import Scope
from rag.core.errors import NotFoundError
from rag.stages.chunking.diff_texts import DiffRun, diff_texts

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
    chunk = _readable_chunk(scope, chunk_id)
    before = models.ChunkRevision.objects.filter(chunk=chunk).select_related("replaced_by")
    return [
        Revision(chunk.revision, chunk.text),
        *(
            Revision(one.revision, one.text, str(one.replaced_by or ""), one.replaced_at)
            for one in before.order_by("-revision")[:MAX_REVISIONS]
        ),
    ]


def diff_revisions(*, scope: Scope, chunk_id: int, old: int, new: int) -> Sequence[DiffRun]:
    """Return what changed from one revision to another, word by word.

    Raises NotFoundError to who may not read the chunk and for a revision that is not kept.
    """
    chunk = _readable_chunk(scope, chunk_id)
    kept = models.ChunkRevision.objects.filter(chunk=chunk, revision__in=(old, new))
    texts = {chunk.revision: chunk.text, **dict(kept.values_list("revision", "text"))}
    for revision in (old, new):
        if revision not in texts:
            raise NotFoundError("The chunk has no revision {revision}.", revision=revision)
    return diff_texts(texts[old], texts[new])


def _readable_chunk(scope: Scope, chunk_id: int) -> models.Chunk:
    chunk = models.Chunk.objects.readable(scope).filter(pk=chunk_id).first()
    if chunk is None:
        raise NotFoundError("There is no chunk {id}.", id=chunk_id)
    return chunk
