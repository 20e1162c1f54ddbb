"""Upload: bytes streamed to storage, hashed, deduplicated, and queued or sent to Gemini."""

from __future__ import annotations

import hashlib
import re
import time
import unicodedata
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, Any, cast

from django.core.files.storage import default_storage
from django.db import IntegrityError, InterfaceError, OperationalError, transaction

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.documents import ChunkRule
from rag.core.errors import (
    CancelledError,
    ConfigurationError,
    ConflictError,
    DocumentError,
    InvalidInputError,
    LimitError,
    NotFoundError,
    ProviderTimeoutError,
    RAGError,
)
from rag.core.file_search import RemoteDocument, Upload
from rag.providers.postgres.db.connections import release_db
from rag.services.files.delete import delete_files
from rag.services.files.requeue import queue_file, requeue_files
from rag.services.gemini import upload_to_gemini
from rag.stages.detect.decode import encoding_name

PIECE = 1024 * 1024
_DRIVE = re.compile(r"[A-Za-z]:")
_BAD_IN_NAMES = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """What was written; ``sha256`` is in hexadecimal, ``size`` in bytes."""

    sha256: str
    size: int


def store_bytes(*, path: str, content: IO[bytes], name: str) -> StoredBytes:
    """Write ``content`` to ``path`` of the storage; ``name`` is for the errors.

    Raises LimitError over 100 MB and ConfigurationError when it cannot be written; part of it may
    lie there then.
    """
    pieces = _HashingReader(content, name)
    try:
        # Django's File around it would read past our chunks(), and nothing would be hashed.
        default_storage.save(path, cast(Any, pieces))
    except OSError as error:
        raise ConfigurationError(
            "“{name}” could not be stored: {reason}.",
            hint="See to the space and the permissions of the media folder, and upload it again.",
            name=name,
            reason=error.strerror or error,
        ) from error
    return StoredBytes(pieces.digest.hexdigest(), pieces.size)


def file_too_large(*, name: str) -> LimitError:
    """Return the error of a document with more bytes than one may have."""
    return LimitError(
        "“{name}” is larger than {limit} MB.",
        hint="Split it and upload the parts.",
        name=name,
        limit=conf().max_file_bytes // PIECE,
    )


class _HashingReader:
    """A readable that hashes what passes and stops at the size limit."""

    def __init__(self, content: IO[bytes], name: str) -> None:
        self.content = content
        self.name = name
        self.digest = hashlib.sha256()
        self.size = 0

    def chunks(self, chunk_size: int | None = None) -> Iterable[bytes]:
        while piece := self.content.read(PIECE):
            self.size += len(piece)
            if self.size > conf().max_file_bytes:
                raise file_too_large(name=self.name)
            self.digest.update(piece)
            yield piece

    def read(self, size: int = -1) -> bytes:
        return self.content.read(size)

    def seek(self, position: int) -> None:
        self.content.seek(position)


@dataclass(frozen=True, slots=True)
class FileAttributes:
    """What holds for a new file; ``rule`` None and no ``splitter`` are the store's own.

    ``is_claimed``: the caller itself brings it to where it is kept, now; no job is queued.
    """

    content_type: str = "document"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    codec: str = ""
    rule: ChunkRule | None = None
    splitter: str = ""
    is_claimed: bool = False

    @property
    def read_options(self) -> dict[str, Any]:
        """Return the columns that say how the file is read, as far as they were given."""
        read: dict[str, Any] = {"encoding_override": self.codec} if self.codec else {}
        if self.rule is not None:
            read["max_tokens_per_chunk"] = self.rule.max_tokens
            read["max_overlap_tokens"] = self.rule.overlap_tokens
        if self.splitter:
            read["splitter"] = self.splitter
        return read

    @property
    def initial_state(self) -> dict[str, Any]:
        """Return status and progress of a file that comes in."""
        states = models.File.Status
        status, stage = (
            (states.UPLOADING, "sending") if self.is_claimed else (states.PROCESSING, "waiting")
        )
        return {"status": status, "progress": {"stage": stage}}


@dataclass(frozen=True, slots=True)
class FileUpload:
    """The file, whether it is new, and whether the caller, who claims it, has to bring it."""

    file: models.File
    is_new: bool
    is_due: bool = False


def create_file(
    *, store: models.Store, name: str, content: IO[bytes], attributes: FileAttributes
) -> FileUpload:
    """Keep the bytes and file them once a store; see ``upload_file`` for what is raised."""
    path = f"stores/{store.pk}/{uuid.uuid4().hex}"
    is_wanted = False
    try:
        stored = store_bytes(path=path, content=content, name=name)
        filed = _create_or_find(store, stored, {"content": path, "name": name}, attributes)
        is_wanted = filed.is_new
        return filed
    except (OperationalError, InterfaceError):
        # The row may be there although nobody could say so; if not, the upkeep removes the bytes.
        is_wanted = True
        raise
    finally:
        if not is_wanted:
            default_storage.delete(path)


def _create_or_find(
    store: models.Store, stored: StoredBytes, values: dict[str, Any], attributes: FileAttributes
) -> FileUpload:
    try:
        # Durable: the bytes are removed when this fails, which a transaction around it would hide.
        with transaction.atomic(durable=True):
            file = models.File.objects.create(
                store=store,
                sha256=stored.sha256,
                size=stored.size,
                metadata=dict(attributes.metadata),
                content_type=attributes.content_type,
                **values,
                **attributes.read_options,
                **attributes.initial_state,
            )
            if not attributes.is_claimed:
                queue_file(file_id=file.pk, name=file.name, size=file.size)
            return FileUpload(file, True, attributes.is_claimed)
    except IntegrityError as error:
        if not models.Store.objects.filter(pk=store.pk).exists():
            raise ConflictError(
                "The store “{name}” was deleted meanwhile.", name=store.name
            ) from error
    twin = models.File.objects.light().filter(store=store, sha256=stored.sha256).first()
    if twin is None:
        # It was deleted at this very moment.
        return _create_or_find(store, stored, values, attributes)
    is_other = any(getattr(twin, name) != value for name, value in attributes.read_options.items())
    is_due = is_other or twin.status in (models.File.Status.IDLE, models.File.Status.ERROR)
    if is_due:
        # Whoever brings the bytes again wants them found, and as they say.
        rows = models.File.objects.filter(pk=twin.pk)
        begun = attributes.initial_state if attributes.is_claimed else {}
        if attributes.read_options or begun:
            rows.update(**attributes.read_options, **begun)
        if not attributes.is_claimed:
            requeue_files(store=store, file_ids=[twin.pk])
        twin.refresh_from_db(fields=["status", "progress", *attributes.read_options])
    return FileUpload(twin, False, is_due and attributes.is_claimed)


def upload_file(
    *,
    store: models.Store,
    name: str,
    content: IO[bytes],
    content_type: str = "document",
    metadata: Mapping[str, Any] | None = None,
    encoding: str = "",
) -> FileUpload:
    """Keep the bytes, file them once a store and queue their indexing; folders of ``name`` stay.

    ``content`` is read in pieces. ``encoding`` is that of a text, empty to tell it from the bytes.
    Bytes that are there already are queued again if they are idle or in error, or to be read by
    another encoding. Raises LimitError over 100 MB, InvalidInputError for an unusable name or an
    unknown encoding, ConflictError when the store is gone; what was written is removed then. Not
    to be called in a transaction.
    """
    attributes = FileAttributes(content_type, metadata or {}, encoding_name(encoding))
    return create_file(store=store, name=clean_path(name), content=content, attributes=attributes)


def clean_path(name: str) -> str:
    """Return a name with the folders of the zip that it came in.

    Any other path, absolute or with a way up, leads about another machine: its last part is taken.
    Of more than 255 characters the first folders are left out.
    """
    *folders, last = name.split("/")
    if not last or "\\" in name or _DRIVE.match(name) or {"", ".", ".."} & set(folders):
        return clean_name(name)
    parts = [part for folder in folders if (part := _BAD_IN_NAMES.sub("", folder).strip(" ."))]
    parts.append(clean_name(last))
    while len("/".join(parts)) > 255:
        parts.pop(0)
    return unicodedata.normalize("NFC", "/".join(parts))


def clean_name(name: str) -> str:
    """Return the last part of a file name without control or direction characters."""
    name = unicodedata.normalize("NFC", _BAD_IN_NAMES.sub("", name)).replace("\\", "/")
    last = PurePosixPath(name).name.strip()
    if not last or last in (".", ".."):
        raise InvalidInputError(
            "The file has no usable name.", hint="Give it a name and try again."
        )
    stem, dot, suffix = last.rpartition(".")
    if len(last) > 255 and dot:
        return f"{stem[: 254 - len(suffix[:20])]}.{suffix[:20]}"
    return last[:255]


STATES = models.File.Status
POLL_S = 0.2
_STATE = {STATES.COMPLETED: "active", STATES.ERROR: "failed"}


def upload_document(
    *, scope: Scope, store: models.Store, upload: Upload, deadline: Deadline, is_waiting: bool
) -> RemoteDocument:
    """Return the document: found by searches, or pending where it is ours and nobody waits.

    To Gemini it is sent here and now; in a store of ours the queue indexes it, and ``is_waiting``
    waits for that. A cancelled call leaves no file behind, a failed one keeps it with the reason.
    Raises ForbiddenError to who may not edit the store, LimitError, DocumentError, and at the
    deadline.
    """
    deadline.check()
    store.require_editable(scope)
    rule = None if upload.rule == store.chunk_rule else upload.rule
    attributes = FileAttributes(metadata=upload.metadata, rule=rule, is_claimed=store.is_remote)
    name = clean_name(upload.display_name)
    release_db()
    with upload.path.open("rb") as content:
        uploaded = create_file(store=store, name=name, content=content, attributes=attributes)
    try:
        deadline.check()
        if uploaded.is_due:
            upload_to_gemini(file_id=uploaded.file.pk, deadline=deadline)
        elif is_waiting:
            _wait(uploaded.file.pk, upload, deadline)
    except CancelledError:
        if uploaded.is_new:
            delete_files(scope=scope, file_ids=[uploaded.file.pk])
        raise
    file = models.File.objects.light().select_related("store").filter(pk=uploaded.file.pk).first()
    if file is None:
        raise NotFoundError("“{name}” was deleted meanwhile.", name=name)
    if is_waiting and file.error:
        raise DocumentError.from_dict(file.error)
    return as_remote_document(file)


def as_remote_document(file: models.File) -> RemoteDocument:
    """Return a file as every backend tells of its documents."""
    error = str(RAGError.from_dict(file.error)) if file.error else ""
    return RemoteDocument(
        name=file.resource_name,
        display_name=file.name,
        size_bytes=file.size,
        state=_STATE.get(STATES(file.status), "pending"),
        error=error,
        metadata=file.metadata,
    )


def chunk_rule_for(
    store: models.Store, max_tokens: int | None, overlap_tokens: int | None
) -> ChunkRule:
    """Return how a document is cut: what was asked for, else what the store has.

    Raises InvalidInputError out of range.
    """
    own = store.chunk_rule
    return ChunkRule(
        own.max_tokens if max_tokens is None else max_tokens,
        own.overlap_tokens if overlap_tokens is None else overlap_tokens,
        own.splitter,
    )


def _wait(file_id: int, upload: Upload, deadline: Deadline) -> None:
    busy = (STATES.UPLOADING, STATES.PROCESSING)
    while True:
        row = models.File.objects.filter(pk=file_id).values_list("status", "progress").first()
        if row is None or row[0] not in busy:
            return
        if upload.on_progress is not None:
            upload.on_progress(float(row[1].get("share") or 0))
        release_db()
        _check_wait(upload, deadline)
        time.sleep(POLL_S)


def _check_wait(upload: Upload, deadline: Deadline) -> None:
    try:
        deadline.check()
    except ProviderTimeoutError:
        raise ProviderTimeoutError(
            "“{name}” could not be found within {seconds} s.",
            hint="Files wait in the queue until they are indexed: see that a worker runs.",
            name=upload.display_name,
            seconds=f"{deadline.timeout_s:g}",
        ) from None
