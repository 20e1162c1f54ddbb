"""A stream to the storage, piece by piece. In: a path and a stream. Out: its hash and size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Any, cast

from django.core.files.storage import default_storage

from rag.conf import conf
from rag.core.errors import ConfigurationError, LimitError

PIECE = 1024 * 1024


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
    pieces = _Hashing(content, name)
    try:
        # Django's File around it would read past our chunks(), and nothing would be hashed.
        default_storage.save(path, cast(Any, pieces))
    except OSError as error:
        raise ConfigurationError(
            "“{name}” could not be stored: {reason}.",
            hint="See to the space and the permissions of the media folder, and upload it again.",
            name=name, reason=error.strerror or error,
        ) from error  # fmt: skip
    return StoredBytes(pieces.digest.hexdigest(), pieces.size)


def too_large(*, name: str) -> LimitError:
    """Return the error of a document with more bytes than one may have."""
    return LimitError(
        "“{name}” is larger than {limit} MB.", hint="Split it and upload the parts.",
        name=name, limit=conf().max_file_bytes // PIECE,
    )  # fmt: skip


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
                raise too_large(name=self.name)
            self.digest.update(piece)
            yield piece

    def read(self, size: int = -1) -> bytes:
        return self.content.read(size)

    def seek(self, position: int) -> None:
        self.content.seek(position)
