"""A file's draft becomes its live revision. In: a parsed document. Out: one transaction."""

from __future__ import annotations

from dataclasses import asdict

from django.db import transaction

from rag import models
from rag.core.documents import ParsedDocument
from rag.core.errors import ConflictError
from rag.providers.postgres.canonical import write_canonical
from rag.providers.postgres.locks import keep_store
from rag.providers.postgres.swap import SwapTarget, swap_in
from rag.providers.procrastinate_queue import is_waiting
from rag.services.carry_over import CarryOver
from rag.stages.match_chunks import Matched

_PUBLISHED = (
    "revision", "n_chunks", "kind", "encoding", "parser", "pages", "blocks", "warnings", "status",
    "error", "progress", "updated_at",
)  # fmt: skip


@transaction.atomic
def publish_file(*, file: models.File, document: ParsedDocument, planned: Matched) -> bool:
    """Swap the draft in, and what people did with it; False when the file was deleted meanwhile.

    ``planned`` is what the draft was cut around. Raises ConflictError when the draft relies on a
    vector that is gone, is for a space that the store has left (``file.store`` has the new one
    then), or does not fit what somebody did meanwhile.
    """
    space_id = file.store.live_space_id
    if not keep_store(file.store_id):
        return False
    row = models.File.objects.select_for_update().light().filter(pk=file.pk).first()
    if row is None:
        return False
    # Whoever lets the store stand on another space waits for this transaction, or came before it.
    file.store.refresh_from_db(fields=["space"])
    if file.store.live_space_id != space_id:
        raise ConflictError(
            "The store moved to another model meanwhile.", hint="Index the file again."
        )
    row.revision += 1
    target = SwapTarget(
        file_id=row.pk, store_id=row.store_id, space_id=space_id,
        revision=row.revision, content_type=row.content_type,
    )  # fmt: skip
    work = CarryOver(file=row, document=document, planned=planned)
    n_kept = work.before()
    row.n_chunks = swap_in(target) + n_kept
    work.after()
    row.kind, row.encoding, row.parser = document.kind, document.encoding, document.parser
    write_canonical(row.pk, document.text)
    row.pages = [asdict(page) for page in document.pages]
    row.blocks = [asdict(block) for block in document.blocks]
    notice = file.chunk_rule.notice
    notices = [*document.warnings, *([notice] if notice else [])]
    row.warnings = [told.as_dict() for told in notices]
    row.status, row.error, row.progress = models.File.Status.COMPLETED, None, {}
    if is_waiting(f"file:{row.pk}"):
        row.status, row.progress = models.File.Status.PROCESSING, {"stage": "waiting"}
    row.save(update_fields=_PUBLISHED)
    return True
