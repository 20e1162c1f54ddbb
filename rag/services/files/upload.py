"""Upload: bytes are streamed to storage, hashed, deduplicated in the store, and queued."""

from __future__ import annotations

import hashlib
import re
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
from rag.core.documents import ChunkRule
from rag.core.errors import ConfigurationError, ConflictError, InvalidInputError, LimitError
from rag.providers.procrastinate_queue import defer
from rag.services.files.requeue import requeue_files
from rag.services.usage import current_payer
from rag.stages.detect.encodings import encoding_name

PIECE = 1024 * 1024
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
    """What holds for a new file; ``rule`` None is the store's own.

    ``is_claimed``: the caller itself brings it to where it is kept, now; no job is queued.
    """

    content_type: str = "document"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    codec: str = ""
    rule: ChunkRule | None = None
    is_claimed: bool = False

    @property
    def read_options(self) -> dict[str, Any]:
        """Return the columns that say how the file is read, as far as they were given."""
        read: dict[str, Any] = {"encoding_override": self.codec} if self.codec else {}
        if self.rule is not None:
            read["max_tokens_per_chunk"] = self.rule.max_tokens
            read["max_overlap_tokens"] = self.rule.overlap_tokens
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
                defer("rag.index_file", lock=f"file:{file.pk}", file_id=file.pk, **current_payer())
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
    """Keep the bytes, file them once a store and queue their indexing.

    ``content`` is read in pieces. ``encoding`` is that of a text, empty to tell it from the bytes.
    Bytes that are there already are queued again if they are idle or in error, or to be read by
    another encoding. Raises LimitError over 100 MB, InvalidInputError for an unusable name or an
    unknown encoding, ConflictError when the store is gone; what was written is removed then. Not
    to be called in a transaction.
    """
    attributes = FileAttributes(content_type, metadata or {}, encoding_name(encoding))
    return create_file(store=store, name=clean_name(name), content=content, attributes=attributes)


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
