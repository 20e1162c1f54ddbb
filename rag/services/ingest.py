"""A file into a store: streamed to disk, hashed, filed once, queued."""

from __future__ import annotations

import hashlib
import re
import unicodedata
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any, cast

from django.core.files.storage import default_storage
from django.db import IntegrityError, transaction

from rag import models
from rag.conf import conf
from rag.core.errors import InvalidInputError, LimitError
from rag.providers.procrastinate_queue import defer

PIECE = 1024 * 1024
_BAD_IN_NAMES = re.compile(r"[\x00-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Ingested:
    """The file, and whether it is new; the same bytes twice in a store are one file."""

    file: models.File
    is_new: bool


def ingest_file(
    *,
    store: models.Store,
    name: str,
    content: IO[bytes],
    content_type: str = "document",
    metadata: Mapping[str, Any] | None = None,
) -> Ingested:
    """Keep the bytes, file them once a store and queue their indexing.

    ``content`` is read in pieces. Raises LimitError over 100 MB and InvalidInputError for an
    unusable name; what was written is removed then.
    """
    name = clean_name(name)
    path = f"stores/{store.pk}/{uuid.uuid4().hex}"
    pieces = _Hashing(content, name)
    # Django's File around it would read past our chunks(), and nothing would be hashed.
    saved = default_storage.save(path, cast(Any, pieces))
    try:
        return _file_once(
            store, saved, name, pieces,
            {"content_type": content_type, "metadata": dict(metadata or {})},
        )  # fmt: skip
    except BaseException:
        default_storage.delete(saved)
        raise


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


def _file_once(
    store: models.Store, saved: str, name: str, pieces: _Hashing, values: dict[str, Any]
) -> Ingested:
    digest = pieces.digest.hexdigest()
    try:
        with transaction.atomic():
            file = models.File.objects.create(
                store=store, name=name, sha256=digest, content=saved, size=pieces.size,
                status=models.File.Status.PROCESSING, progress={"stage": "waiting"}, **values,
            )  # fmt: skip
            defer("rag.index_file", lock=f"file:{file.pk}", file_id=file.pk)
            return Ingested(file, True)
    except IntegrityError:
        twin = models.File.objects.light().filter(store=store, sha256=digest).first()
        if twin is None:
            raise
        default_storage.delete(saved)
        return Ingested(twin, False)


class _Hashing:
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
                raise LimitError(
                    "“{name}” is larger than {limit} MB.", hint="Split it and upload the parts.",
                    name=self.name, limit=conf().max_file_bytes // PIECE,
                )  # fmt: skip
            self.digest.update(piece)
            yield piece

    def read(self, size: int = -1) -> bytes:
        return self.content.read(size)

    def seek(self, position: int) -> None:
        self.content.seek(position)
