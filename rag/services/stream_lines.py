"""A long download as it is made. In: lines. Out: pieces of bytes, no connection kept meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async

from rag.providers.postgres.connections import release_db

PIECE = 64 * 1024


async def stream_lines(*, lines: Iterator[str]) -> AsyncIterator[bytes]:
    """Yield the lines in UTF-8, about 64 KB at a time.

    Under ASGI an ordinary iterator would be read to its end before the first byte is sent.
    """
    while piece := await sync_to_async(_piece)(lines):
        yield piece


def _piece(lines: Iterator[str]) -> bytes:
    taken: list[str] = []
    size = 0
    try:
        for line in lines:
            taken.append(line)
            size += len(line)
            if size >= PIECE:
                break
    finally:
        release_db()
    return "".join(taken).encode()
