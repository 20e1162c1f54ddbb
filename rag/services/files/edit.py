"""Bulk actions on files and chunks: enable, re-embed, move, retry, cancel; and edit of one file.

Files that the scope may not edit are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction

from rag import models
from rag.core.access import Scope
from rag.core.documents import ChunkRule
from rag.core.errors import ConflictError, InvalidInputError, RAGError
from rag.providers.procrastinate_queue import Job, cancel_job
from rag.services.files.delete import delete_files
from rag.services.files.requeue import requeue_files
from rag.services.files.upload import (
    FileAttributes,
    FileUpload,
    clean_name,
    clean_path,
    create_file,
)


@dataclass(frozen=True, slots=True)
class MoveResult:
    """How many files went, how many of these were there already, and why others stay."""

    n_moved: int
    n_known: int
    problems: tuple[tuple[str, RAGError], ...]


def set_files_enabled(*, scope: Scope, file_ids: Sequence[int], enabled: bool) -> int:
    """Let all chunks of files be found or not; return how many changed."""
    n = 0
    for pk in (
        models.File.objects.editable(scope).filter(pk__in=file_ids).values_list("pk", flat=True)
    ):
        with transaction.atomic():
            # A revision that is being swapped in takes the file first and its chunks then.
            held = models.File.objects.filter(pk=pk).select_for_update(no_key=True)
            list(held.values_list("pk"))
            chunks = models.Chunk.objects.live().filter(file=pk)
            n += chunks.exclude(enabled=enabled).update(enabled=enabled)
    return n


def move_files(*, scope: Scope, file_ids: Sequence[int], target: models.Store) -> MoveResult:
    """Bring files to another store, where they are read anew, and delete them here.

    Name, metadata, encoding, chunking and groups go along; what people did to chunks does not.
    Raises ForbiddenError for a target that ``scope`` may not edit. Not to be called in a
    transaction.
    """
    target.require_editable(scope)
    target.require_local()
    files = models.File.objects.light().editable(scope).filter(pk__in=file_ids)
    n_moved = n_known = 0
    problems: list[tuple[str, RAGError]] = []
    for file in files.exclude(store=target).select_related("store"):
        try:
            copied = _copy(file, target)
            delete_files(scope=scope, file_ids=[file.pk])
        except RAGError as error:
            problems.append((file.name, error))
            continue
        n_moved += 1
        n_known += not copied.is_new
    return MoveResult(n_moved, n_known, tuple(problems))


def _copy(file: models.File, target: models.Store) -> FileUpload:
    if file.store.is_remote:
        raise InvalidInputError("“{name}” is kept at Gemini.", hint="Upload it.", name=file.name)
    size, overlap = file.max_tokens_per_chunk, file.max_overlap_tokens
    rule = ChunkRule(size, overlap) if size is not None and overlap is not None else None
    # Claimed, so that nothing is indexed before the file's groups are set.
    attributes = FileAttributes(
        file.content_type,
        file.metadata,
        file.encoding_override,
        rule,
        file.splitter,
        is_claimed=True,
    )
    groups = list(file.restricted_to.all())
    try:
        with file.content.open("rb") as content:
            copied = create_file(
                store=target, name=file.name, content=content, attributes=attributes
            )
    except FileNotFoundError as error:
        raise ConflictError(
            "The original of “{name}” is missing.", hint="Upload it again.", name=file.name
        ) from error
    if copied.is_new:
        copied.file.restricted_to.set(groups)
    if copied.is_new or copied.is_due:
        requeue_files(store=target, file_ids=[copied.file.pk])
    return copied


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
    file.require_editable(scope)
    if restricted_to and file.store.is_remote:
        raise InvalidInputError(
            "Files at Gemini cannot be restricted to groups: “{name}” answers all who may read "
            "its store.",
            hint="Keep it in another store.",
            name=file.name,
        )
    was = (file.name, file.content_type, file.metadata)
    with transaction.atomic():
        file.name = clean_path(name) if "/" in file.name else clean_name(name)
        file.content_type = content_type.strip() or "document"
        file.metadata = dict(metadata)
        file.save(update_fields=["name", "content_type", "metadata", "updated_at"])
        if restricted_to is not None:
            file.restricted_to.set(restricted_to)
        if file.store.is_remote and was != (file.name, file.content_type, file.metadata):
            requeue_files(store=file.store, file_ids=[file.pk])


def retry_files(*, scope: Scope, file_ids: Sequence[int], fresh_vectors: bool = False) -> int:
    """Queue files to be read anew; return how many. Their live revision serves meanwhile.

    ``fresh_vectors`` embeds unchanged chunks anew, too.
    """
    files = models.File.objects.editable(scope).filter(pk__in=file_ids)
    n_queued = 0
    for store in models.Store.objects.filter(files__in=files).distinct():
        ids = list(files.filter(store=store).values_list("pk", flat=True))
        n_queued += len(requeue_files(store=store, file_ids=ids, fresh_vectors=fresh_vectors))
    return n_queued


def cancel_files(*, scope: Scope, file_ids: Sequence[int]) -> tuple[int, int]:
    """Take waiting files out of the queue; return how many, and how many run already.

    A file with a live revision is completed again, others are idle; a running job goes on.
    """
    states = models.File.Status
    files = models.File.objects.editable(scope).filter(pk__in=file_ids, status=states.PROCESSING)
    n_cancelled = n_running = 0
    for pk, revision in files.values_list("pk", "revision"):
        jobs = Job.objects.filter(lock=f"file:{pk}", status__in=("todo", "doing"))
        rows = jobs.values_list("pk", "status")
        if [job for job, status in rows if status == "doing" or not cancel_job(job)]:
            n_running += 1
            continue
        before = states.COMPLETED if revision else states.IDLE
        models.File.objects.filter(pk=pk).update(status=before, progress={})
        n_cancelled += 1
    return n_cancelled, n_running
