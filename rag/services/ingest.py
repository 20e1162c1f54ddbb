"""A file into a store: streamed to disk, hashed, filed once, queued."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import IO, Any

from rag import models
from rag.core.errors import InvalidInputError
from rag.services.take_bytes import Facts, Ingested, take_bytes
from rag.stages.encodings import encoding_name

_BAD_IN_NAMES = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def ingest_file(
    *,
    store: models.Store,
    name: str,
    content: IO[bytes],
    content_type: str = "document",
    metadata: Mapping[str, Any] | None = None,
    encoding: str = "",
) -> Ingested:
    """Keep the bytes, file them once a store and queue their indexing.

    ``content`` is read in pieces. ``encoding`` is that of a text, empty to tell it from the bytes.
    Bytes that are there already are queued again if they are idle or in error, or to be read by
    another encoding. Raises LimitError over 100 MB, InvalidInputError for an unusable name or an
    unknown encoding, ConflictError when the store is gone; what was written is removed then. Not
    to be called in a transaction.
    """
    facts = Facts(content_type, metadata or {}, encoding_name(encoding))
    return take_bytes(store=store, name=clean_name(name), content=content, facts=facts)


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
