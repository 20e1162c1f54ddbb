"""Index job of a file: parse, chunk, embed, activate; resumable at any point.

The old revision serves until the new one is activated in one transaction; nothing is half-visible.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from enum import Enum
from pathlib import Path

from django.core.files.storage import default_storage
from django.db import IntegrityError, transaction

from rag import models
from rag.conf import conf
from rag.core.deadline import Deadline
from rag.core.documents import ParsedDocument
from rag.core.errors import ConflictError, DocumentError, RAGError
from rag.core.ocr.scans import OCR_VERSION
from rag.providers.postgres.db.locks import file_lock, lock_store_shared
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.write.staging import discard_staged, write_canonical
from rag.providers.postgres.write.swap import SwapTarget, swap_revision
from rag.providers.procrastinate_queue import is_waiting
from rag.services.gemini import upload_to_gemini
from rag.services.index import (
    backfill_shadow_spaces,
    queue_index_builds,
    reweigh_file,
    reweigh_if_drifted,
)
from rag.services.ingest.preserve_edits import EditPreserver, match_edits, reembed_edits
from rag.services.ingest.recognition import drop_old_scans, recognize_file, recognized_pages
from rag.services.ingest.staged_revision import (
    GivesWay,
    never_gives_way,
    stage_revision,
    stored_document,
)
from rag.services.webhooks import announce_event
from rag.services.wiring import registry as wiring
from rag.stages.chunking.match_chunks import MatchedEdits

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
def activate_revision(
    *, file: models.File, document: ParsedDocument, planned: MatchedEdits
) -> bool:
    """Swap the draft in, and what people did with it; False when the file was deleted meanwhile.

    ``planned`` is what the draft was cut around. Raises ConflictError when the draft relies on a
    vector that is gone, is for a space that the store has left (``file.store`` has the new one
    then), or does not fit what somebody did meanwhile.
    """
    space_id = file.store.live_space_id
    if not lock_store_shared(file.store_id):
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
    work = EditPreserver(file=row, document=document, planned=planned)
    n_kept = work.before()
    row.n_chunks = swap_revision(target) + n_kept
    work.after()
    row.kind, row.encoding, row.parser = document.kind, document.encoding, document.parser
    write_canonical(row.pk, document.text)
    row.pages = [asdict(page) for page in document.pages]
    row.blocks = [asdict(block) for block in document.blocks]
    notice = file.chunk_rule.notice
    notices = [*document.warnings, *([notice] if notice else [])]
    row.warnings = [one.as_dict() for one in notices]
    row.status, row.error, row.progress = models.File.Status.COMPLETED, None, {}
    if is_waiting(f"file:{row.pk}"):
        row.status, row.progress = models.File.Status.PROCESSING, {"stage": "waiting"}
    row.save(update_fields=_PUBLISHED)
    drop_old_scans(file=row)
    return True


def index_file(
    *,
    file_id: int,
    fresh_vectors: bool = False,
    from_text: bool = False,
    gives_way: GivesWay = never_gives_way,
) -> bool:
    """Bring a file's chunks up to date; its error is recorded on the row, not raised.

    Return False where it stopped because ``gives_way`` said so; the next call goes on from there.
    ``fresh_vectors`` embeds unchanged chunks anew too; ``from_text`` cuts the kept text and reads
    no bytes. A file that was deleted meanwhile is nothing to do. Raises OperationalError while
    another worker is at it.
    """
    if models.File.objects.filter(pk=file_id, store__backend="gemini").exists():
        # Without holding it: the lock would stay with a connection that goes back to the pool. The
        # row holds what goes wrong.
        with suppress(RAGError):
            upload_to_gemini(file_id=file_id, deadline=Deadline(conf().upload_timeout_s))
        return True
    with file_lock(file_id):
        return _index(file_id, fresh_vectors, from_text, gives_way)


def _index(file_id: int, fresh_vectors: bool, from_text: bool, gives_way: GivesWay) -> bool:
    file = models.File.objects.light().select_related("store__space").filter(pk=file_id).first()
    if file is None:
        return True
    models.File.objects.filter(pk=file.pk).update(
        status=models.File.Status.PROCESSING, error=None, progress={"stage": "parsing"}
    )
    try:
        kept = stored_document(file=file) if from_text else None
        document = kept or _parse(file, gives_way)
        if document is None:
            return False
        ended = _stage_and_activate(file, document, fresh_vectors, gives_way)
        if ended is not Ended.PUBLISHED:
            return ended is not Ended.GAVE_WAY
        if fresh_vectors:
            reembed_edits(file_id=file.pk)
        backfill_shadow_spaces(store_id=file.store_id, file_ids=[file.pk])
    except RAGError as error:
        record_file_error(file_id=file.pk, error=error)
        return True
    except IntegrityError:
        # Rows of a file that was deleted meanwhile, alone or with its store.
        if models.File.objects.filter(pk=file.pk).exists():
            raise
        return True
    stats.roll_up([file.store_id])
    reweigh_file(file_id=file.pk)
    reweigh_if_drifted(store_id=file.store_id)
    stats.merge_pending_terms()
    queue_index_builds(store_id=file.store_id)
    told = {"file": file.pk, "name": file.name, "store": file.store.slug}
    announce_event(event=models.Webhook.Event.FILE_READY, data=told)
    return True


def record_file_error(*, file_id: int, error: RAGError) -> None:
    """Put a file's error on its row; its bytes and its live revision stay."""
    models.File.objects.filter(pk=file_id).update(
        status=models.File.Status.ERROR, error=error.as_dict(), progress={}
    )


class Ended(Enum):
    """How the indexing of a file ended without an error."""

    PUBLISHED = 1
    DELETED = 2
    GAVE_WAY = 3


def _stage_and_activate(
    file: models.File, document: ParsedDocument, fresh_vectors: bool, gives_way: GivesWay
) -> Ended:
    """Draft and publish; the file may be deleted meanwhile."""
    for is_last in (False, True):
        planned = match_edits(file=file, document=document)
        n_rows = stage_revision(
            file=file,
            document=document,
            fresh_vectors=fresh_vectors,
            holes=planned.holes,
            gives_way=gives_way,
        )
        if n_rows is None:
            return Ended.GAVE_WAY
        if not n_rows and not planned.holes:
            raise DocumentError(
                "“{name}” holds no text.", hint="Upload one with text.", name=file.name
            )
        try:
            is_there = activate_revision(file=file, document=document, planned=planned)
            return Ended.PUBLISHED if is_there else Ended.DELETED
        except ConflictError:
            # The draft counts on a vector that is gone: it would fail in the same way for ever.
            discard_staged(file.pk)
            if is_last:
                raise
    return Ended.DELETED


def _parse(file: models.File, gives_way: GivesWay) -> ParsedDocument | None:
    """Return what the file says, None where its scans gave way to smaller files."""
    stored = str(file.content.name)
    if not default_storage.exists(stored):
        raise DocumentError(
            "The stored bytes of “{name}” are missing.",
            hint="Upload the file again.",
            name=file.name,
        )
    path = Path(default_storage.path(stored))
    has_ocr = recognize_file(file=file, path=path, gives_way=gives_way)
    if has_ocr is None:
        return None
    document = wiring.parser(with_hidden=file.store.reads_hidden_cells).parse(
        path,
        file.name,
        encoding=file.encoding_override,
        recognized=recognized_pages(file=file) if has_ocr else (),
    )
    return replace(document, parser=f"{document.parser}+{OCR_VERSION}") if has_ocr else document
