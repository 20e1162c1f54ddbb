"""Upload of a file to a store at Gemini, with progress in its row.

A row that was deleted or changed meanwhile leaves no document behind.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage
from django.db.models import F
from django.utils import timezone

from rag import models
from rag.core.deadline import Deadline
from rag.core.errors import DocumentError, RAGError
from rag.core.file_search import RemoteDocument, Upload
from rag.providers.postgres.db.connections import release_db
from rag.services.gemini.stores import gemini_file_search

_log = logging.getLogger(__name__)
STATES = models.File.Status
# Our file's id in the document's metadata: what grounding leads back by.
FILE_KEY = "citable_file"
MAX_KEYS = 19
_PROGRESS_EVERY_S = 1.0


def upload_to_gemini(*, file_id: int, deadline: Deadline) -> RemoteDocument | None:
    """Upload a file's bytes to its store at Gemini; None when it was deleted meanwhile.

    A document that it had there before goes once the new one can be found. Raises what Gemini
    answers; the row holds it too, and its bytes stay, to be sent again.
    """
    file = models.File.objects.light().select_related("store").filter(pk=file_id).first()
    if file is None:
        return None
    _save_progress(
        file, status=STATES.UPLOADING, error=None, progress={"stage": "sending", "share": 0.0}
    )
    try:
        upload = _upload(file)
        release_db()
        document = gemini_file_search().upload(file.store.resource_name, upload, deadline=deadline)
    except RAGError as error:
        _save_progress(file, status=STATES.ERROR, error=error.as_dict(), progress={})
        raise
    is_kept = _save_progress(
        file,
        is_last=True,
        status=STATES.COMPLETED,
        error=None,
        progress={},
        kind=Path(file.name).suffix.lower().lstrip(".")[:10],
        remote_name=document.name,
        revision=F("revision") + 1,
    )
    if not is_kept:
        _drop(document.name)
        return None
    if file.remote_name and file.remote_name != document.name:
        _drop(file.remote_name)
    return document


def remote_metadata(file: models.File) -> dict[str, Any]:
    """Return what of a file's facts goes to Gemini: texts, numbers and lists of texts.

    Raises DocumentError for more keys than Gemini keeps.
    """
    facts: dict[str, Any] = {FILE_KEY: str(file.pk), "content_type": file.content_type}
    facts |= {str(name): _plain(value) for name, value in file.metadata.items()}
    if len(facts) > MAX_KEYS:
        raise DocumentError(
            "“{name}” has {n} keys of metadata.",
            hint="Gemini keeps {limit}.",
            name=file.name,
            n=len(file.metadata),
            limit=MAX_KEYS - 2,
        )
    return facts


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [str(part) for part in value]
    if isinstance(value, Mapping) or value is None:
        return str(value)
    return str(value).lower() if isinstance(value, bool) else value


def _upload(file: models.File) -> Upload:
    stored = str(file.content.name)
    if not default_storage.exists(stored):
        raise DocumentError(
            "The stored bytes of “{name}” are missing.",
            hint="Upload the file again.",
            name=file.name,
        )
    last = 0.0

    def on_progress(share: float) -> None:
        nonlocal last
        if time.monotonic() - last >= _PROGRESS_EVERY_S:
            last = time.monotonic()
            _save_progress(file, progress={"stage": "sending", "share": round(share, 3)})
            release_db()

    path = Path(default_storage.path(stored))
    return Upload(path, file.name, "", file.chunk_rule, remote_metadata(file), on_progress)


def _save_progress(file: models.File, *, is_last: bool = False, **values: Any) -> bool:
    """Write to the row as long as it has the bytes; of two that send them the first to end wins."""
    rows = models.File.objects.filter(pk=file.pk, sha256=file.sha256)
    if is_last:
        rows = rows.filter(remote_name=file.remote_name)
    return bool(rows.update(**values, updated_at=timezone.now()))


def _drop(name: str) -> None:
    release_db()
    try:
        gemini_file_search().delete_document(name)
    except RAGError as error:
        _log.error("%s is left at Gemini without a file here: %s", name, error)
