"""The bytes that were uploaded. In: a file that the caller may read. Out: them, piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import IO

from rag import models
from rag.core.errors import NotFoundError
from rag.providers.postgres.connections import release_db

PIECE = 256 * 1024


def open_original(*, file: models.File) -> tuple[IO[bytes], int]:
    """Return the open bytes and their number; raise NotFoundError when they are missing.

    The connection to the database is given back: a slow reader must not hold one.
    """
    content = file.content
    if not content or not content.storage.exists(str(content.name)):
        raise NotFoundError(
            "The stored bytes of “{name}” are missing.", hint="Upload the file again.",
            name=file.name,
        )  # fmt: skip
    size, opened = content.size, content.open("rb")
    release_db()
    return opened, size


async def pieces_of(content: IO[bytes]) -> AsyncIterator[bytes]:
    """Yield the bytes; under ASGI an ordinary iterator would be read to its end first."""
    try:
        while piece := await asyncio.to_thread(content.read, PIECE):
            yield piece
    finally:
        content.close()
