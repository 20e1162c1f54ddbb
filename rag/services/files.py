"""What people do to files and chunks. In: a Scope and ids; what it may not edit is passed over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction
from procrastinate.contrib.django import app
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.access import Scope
from rag.core.errors import ForbiddenError, InvalidInputError
from rag.services.ingest import clean_name
from rag.services.reindex import reindex


def set_chunks_enabled(*, scope: Scope, chunk_ids: Sequence[int], enabled: bool) -> int:
    """Let chunks be found or not; return how many changed. The indexes follow at commit."""
    chunks = models.Chunk.objects.editable(scope).filter(pk__in=chunk_ids)
    with transaction.atomic():
        # A revision that is being swapped in takes the file first and its chunks then.
        files = models.File.objects.filter(pk__in=chunks.values("file")).order_by("pk")
        list(files.select_for_update(no_key=True).values_list("pk"))
        return chunks.exclude(enabled=enabled).update(enabled=enabled)


def update_file(
    *,
    scope: Scope,
    file: models.File,
    name: str,
    content_type: str,
    metadata: Mapping[str, Any],
    restricted_to: Sequence[Group] | None = None,
) -> None:
    """Change what people may say about a file; chunks and indexes follow at commit.

    A document at Gemini is sent anew with them. ``restricted_to`` None keeps the groups. Raises
    ForbiddenError to who may not edit the store, InvalidInputError for groups at Gemini.
    """
    if not models.File.objects.editable(scope).filter(pk=file.pk).exists():
        raise ForbiddenError("You may read “{name}”, not change it.", name=file.name)
    if restricted_to and file.store.is_remote:
        raise InvalidInputError(
            "Files at Gemini cannot be restricted to groups: “{name}” answers all who may read "
            "its store.", hint="Keep it in another store.", name=file.name,
        )  # fmt: skip
    was = (file.name, file.content_type, file.metadata)
    with transaction.atomic():
        file.name = clean_name(name)
        file.content_type = content_type.strip() or "document"
        file.metadata = dict(metadata)
        file.save(update_fields=["name", "content_type", "metadata", "updated_at"])
        if restricted_to is not None:
            file.restricted_to.set(restricted_to)
        if file.store.is_remote and was != (file.name, file.content_type, file.metadata):
            reindex(store=file.store, file_ids=[file.pk])


def retry_files(*, scope: Scope, file_ids: Sequence[int]) -> int:
    """Queue files to be read anew; return how many. Their live revision serves meanwhile."""
    files = models.File.objects.editable(scope).filter(pk__in=file_ids)
    n_queued = 0
    for store in models.Store.objects.filter(files__in=files).distinct():
        ids = files.filter(store=store).values_list("pk", flat=True)
        n_queued += len(reindex(store=store, file_ids=list(ids)))
    return n_queued


def cancel_files(*, scope: Scope, file_ids: Sequence[int]) -> tuple[int, int]:
    """Take waiting files out of the queue; return how many, and how many run already.

    A file with a live revision is completed again, others are idle; a running job goes on.
    """
    states = models.File.Status
    files = models.File.objects.editable(scope).filter(pk__in=file_ids, status=states.PROCESSING)
    n_cancelled = n_running = 0
    for pk, revision in files.values_list("pk", "revision"):
        jobs = ProcrastinateJob.objects.filter(lock=f"file:{pk}", status__in=("todo", "doing"))
        left = [
            job_id for job_id, status in jobs.values_list("pk", "status")
            if status == "doing" or not app.job_manager.cancel_job_by_id(job_id)
        ]  # fmt: skip
        if left:
            n_running += 1
            continue
        before = states.COMPLETED if revision else states.IDLE
        models.File.objects.filter(pk=pk).update(status=before, progress={})
        n_cancelled += 1
    return n_cancelled, n_running
