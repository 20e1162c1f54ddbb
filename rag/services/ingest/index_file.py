"""The job of a file: parse, cut, embed, swap in. Resumable at any point.

Until the swap the old revision serves; after it the new one does. Nothing is half-visible.

A file's draft becomes its live revision. In: a parsed document. Out: one transaction.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from django.core.files.storage import default_storage
from django.db import IntegrityError, transaction

from rag import models
from rag.conf import conf
from rag.core.deadline import Deadline
from rag.core.documents import ParsedDocument
from rag.core.errors import ConflictError, DocumentError, RAGError
from rag.providers.postgres.db.locks import holding_file, keep_store
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.write.canonical import write_canonical
from rag.providers.postgres.write.drafts import discard_draft
from rag.providers.postgres.write.swap import SwapTarget, swap_in
from rag.providers.procrastinate_queue import is_waiting
from rag.services.gemini.upload import send_file
from rag.services.index.lexical_weights import settle_file, settle_store
from rag.services.index.spaces import queue_index_builds
from rag.services.index.vectors import fill_others
from rag.services.ingest.carry_over import CarryOver, embed_anew, match_file
from rag.services.ingest.draft import draft_file, kept_document
from rag.services.wiring import registry as wiring
from rag.stages.chunking.match_chunks import Matched

_PUBLISHED = (
    "revision",
    "n_chunks",
    "kind",
    "encoding",
    "parser",
    "pages",
    "blocks",
    "warnings",
    "status",
    "error",
    "progress",
    "updated_at",
)


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
        file_id=row.pk,
        store_id=row.store_id,
        space_id=space_id,
        revision=row.revision,
        content_type=row.content_type,
    )
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


def index_file(*, file_id: int, fresh_vectors: bool = False, from_text: bool = False) -> None:
    """Bring a file's chunks up to date; its error is recorded on the row, not raised.

    ``fresh_vectors`` embeds unchanged chunks anew too; ``from_text`` cuts the kept text and reads
    no bytes. A file that was deleted meanwhile is nothing to do. Raises OperationalError while
    another worker is at it.
    """
    if models.File.objects.filter(pk=file_id, store__backend="gemini").exists():
        # Without holding it: the lock would stay with a connection that goes back to the pool.
        _send(file_id)
        return
    with holding_file(file_id):
        _index(file_id, fresh_vectors, from_text)


def _index(file_id: int, fresh_vectors: bool, from_text: bool) -> None:
    file = models.File.objects.light().select_related("store__space").filter(pk=file_id).first()
    if file is None:
        return
    models.File.objects.filter(pk=file.pk).update(
        status=models.File.Status.PROCESSING, error=None, progress={"stage": "parsing"}
    )
    try:
        kept = kept_document(file=file) if from_text else None
        if not _bring_in(file, kept or _parse(file), fresh_vectors):
            return
        if fresh_vectors:
            embed_anew(file_id=file.pk)
        fill_others(store_id=file.store_id, file_ids=[file.pk])
    except RAGError as error:
        record_failure(file_id=file.pk, error=error)
        return
    except IntegrityError:
        # Rows of a file that was deleted meanwhile, alone or with its store.
        if models.File.objects.filter(pk=file.pk).exists():
            raise
        return
    stats.roll_up([file.store_id])
    settle_file(file_id=file.pk)
    settle_store(store_id=file.store_id)
    stats.merge_pending_terms()
    queue_index_builds(store_id=file.store_id)


def _send(file_id: int) -> None:
    # The row holds what goes wrong.
    with suppress(RAGError):
        send_file(file_id=file_id, deadline=Deadline(conf().upload_timeout_s))


def record_failure(*, file_id: int, error: RAGError) -> None:
    """Put a file's error on its row; its bytes and its live revision stay."""
    models.File.objects.filter(pk=file_id).update(
        status=models.File.Status.ERROR, error=error.as_dict(), progress={}
    )


def _bring_in(file: models.File, document: ParsedDocument, fresh_vectors: bool) -> bool:
    """Draft and publish; return False when the file was deleted meanwhile."""
    for is_last in (False, True):
        planned = match_file(file=file, document=document)
        n_rows = draft_file(
            file=file, document=document, fresh_vectors=fresh_vectors, holes=planned.holes
        )
        if not n_rows and not planned.holes:
            raise DocumentError(
                "“{name}” holds no text.", hint="Upload one with text.", name=file.name
            )
        try:
            return publish_file(file=file, document=document, planned=planned)
        except ConflictError:
            # The draft counts on a vector that is gone: it would fail in the same way for ever.
            discard_draft(file.pk)
            if is_last:
                raise
    return False


def _parse(file: models.File) -> ParsedDocument:
    stored = str(file.content.name)
    if not default_storage.exists(stored):
        raise DocumentError(
            "The stored bytes of “{name}” are missing.",
            hint="Upload the file again.",
            name=file.name,
        )
    path = Path(default_storage.path(stored))
    return wiring.parser().parse(path, file.name, encoding=file.encoding_override)
