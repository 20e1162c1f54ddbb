"""The job of a file: parse, cut, embed, swap in. Resumable at any point.

Until the swap the old revision serves; after it the new one does. Nothing is half-visible.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from django.core.files.storage import default_storage
from django.db import transaction

from rag import models
from rag.core.documents import ParsedDocument
from rag.core.errors import DocumentError, RAGError
from rag.providers.postgres import stats
from rag.providers.postgres.canonical import write_canonical
from rag.providers.postgres.swap import SwapTarget, swap_in
from rag.services import wiring
from rag.services.draft import draft_file
from rag.services.spaces import queue_index_builds

_PUBLISHED = (
    "revision", "n_chunks", "kind", "encoding", "parser", "pages", "blocks", "warnings", "status",
    "error", "progress", "updated_at",
)  # fmt: skip


def index_file(*, file_id: int, fresh_vectors: bool = False) -> None:
    """Bring a file's chunks up to date; its error is recorded on the row, not raised.

    ``fresh_vectors`` embeds unchanged chunks anew too. A file that was deleted meanwhile is
    nothing to do.
    """
    file = models.File.objects.light().select_related("store__space").filter(pk=file_id).first()
    if file is None:
        return
    models.File.objects.filter(pk=file.pk).update(
        status=models.File.Status.PROCESSING, error=None, progress={"stage": "parsing"}
    )
    try:
        document = _parse(file)
        if not draft_file(file=file, document=document, fresh_vectors=fresh_vectors):
            raise DocumentError(
                "“{name}” holds no text.", hint="Upload one with text.", name=file.name
            )
        if not _publish(file, document):
            return
    except RAGError as error:
        record_failure(file_id=file.pk, error=error)
        return
    stats.roll_up([file.store_id])
    stats.merge_pending_terms()
    queue_index_builds(store_id=file.store_id)


def record_failure(*, file_id: int, error: RAGError) -> None:
    """Put a file's error on its row; its bytes and its live revision stay."""
    models.File.objects.filter(pk=file_id).update(
        status=models.File.Status.ERROR, error=error.as_dict(), progress={}
    )


def _parse(file: models.File) -> ParsedDocument:
    stored = str(file.content.name)
    if not default_storage.exists(stored):
        raise DocumentError(
            "The stored bytes of “{name}” are missing.",
            hint="Upload the file again.", name=file.name,
        )  # fmt: skip
    return wiring.parser().parse(Path(default_storage.path(stored)), file.name)


@transaction.atomic
def _publish(file: models.File, document: ParsedDocument) -> bool:
    """Swap the draft in; return False when the file was deleted meanwhile."""
    row = models.File.objects.select_for_update().light().filter(pk=file.pk).first()
    if row is None:
        return False
    row.revision += 1
    target = SwapTarget(
        file_id=row.pk, store_id=row.store_id, space_id=file.store.space_id,
        revision=row.revision, content_type=row.content_type,
    )  # fmt: skip
    row.n_chunks = swap_in(target)
    row.kind, row.encoding, row.parser = document.kind, document.encoding, document.parser
    write_canonical(row.pk, document.text)
    row.pages = [asdict(page) for page in document.pages]
    row.blocks = [asdict(block) for block in document.blocks]
    notice = file.store.chunk_rule.notice
    row.warnings = [*document.warnings, *([notice] if notice else [])]
    row.status, row.error, row.progress = models.File.Status.COMPLETED, None, {}
    row.save(update_fields=_PUBLISHED)
    return True
