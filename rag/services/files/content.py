"""Downloads: a piece of a document's text, chunks as JSON lines, the original bytes.

All are streamed, and no database connection is kept while a slow reader takes them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import IO, Any

from asgiref.sync import sync_to_async
from django.db.models.functions import Length, Substr

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, NotFoundError
from rag.providers.postgres.db.connections import release_db

MAX_CHARACTERS = 100_000
_MAX_ID = 2**63 - 1
PAGE = 500
_FACTS = (
    "pk",
    "file",
    "file__name",
    "ordinal",
    "text",
    "context",
    "char_start",
    "char_end",
    "page_first",
    "page_last",
    "heading_path",
    "token_count",
    "content_type",
    "enabled",
    "origin",
    "revision",
)
PIECE = 256 * 1024
LINES_PIECE = 64 * 1024


def document_text(
    *, document: str, scope: Scope, start: int = 0, limit: int = 20_000
) -> dict[str, Any]:
    """Return ``text``, which begins at the code point ``start``, and facts about the document.

    ``document`` is a file's id or resource name. ``next_start`` is where to go on, None at the end.
    Raises NotFoundError for what is not there or may not be read, InvalidInputError for a file
    that has no text here.
    """
    number = document.rpartition("/")[2]
    is_id = number.isascii() and number.isdigit() and len(number) < 20 and int(number) <= _MAX_ID
    files = models.File.objects.readable(scope).select_related("store")
    file = files.light().filter(pk=int(number)).first() if is_id else None
    if file is None or document not in (number, file.resource_name):
        raise NotFoundError("There is no document “{name}”.", name=document[:200])
    if not file.revision:
        raise InvalidInputError(
            "The text of “{name}” is not here.",
            hint="Ask the store about it, or wait until the file is indexed.",
            name=file.name,
        )
    length, text = (
        models.File.objects.filter(pk=file.pk)
        .values_list(Length("canonical_text"), Substr("canonical_text", start + 1, limit))
        .get()
    )
    text = text or ""
    end = start + len(text)
    return {
        "document": str(file.pk),
        "file": file.name,
        "store": file.store.slug,
        "revision": file.revision,
        "content_type": file.content_type,
        "metadata": file.metadata,
        "text": text,
        "start": start,
        "end": end,
        "length": length,
        "next_start": end if end < length else None,
    }


def export_chunks(*, scope: Scope, file_ids: Sequence[int]) -> Iterator[str]:
    """Yield the live chunks of readable files, switched-off ones too, in order of the text.

    A page of chunks is read at a time and nothing is kept open between two.
    """
    for file_id in file_ids:
        chunks = models.Chunk.objects.readable(scope).live().filter(file=file_id)
        chunks = chunks.order_by("char_end", "ordinal")
        numbers = list(chunks.values_list("pk", flat=True))
        for start in range(0, len(numbers), PAGE):
            page = chunks.filter(pk__in=numbers[start : start + PAGE])
            for row in page.values(*_FACTS):
                facts = {"id": row.pop("pk"), "file_name": row.pop("file__name"), **row}
                yield json.dumps(facts, ensure_ascii=False) + "\n"


def documents_after(
    *, scope: Scope, limit: int, file_id: int = 0, store: models.Store | None = None
) -> list[models.File]:
    """Return the next readable files that have a text, by their numbers; of one store or of all."""
    files = models.File.objects.readable(scope).light().filter(revision__gt=0, pk__gt=file_id)
    files = files if store is None else files.filter(store=store)
    return list(files.order_by("pk")[:limit])


def passage_text(*, chunk_id: int, scope: Scope) -> str:
    """Return the text of a chunk that can be found; raise NotFoundError for any other."""
    chunks = models.Chunk.objects.readable(scope).filter(is_live=True, enabled=True)
    found = chunks.filter(pk=chunk_id).values_list("text", flat=True).first()
    if found is None:
        raise NotFoundError("There is no chunk {id}.", id=chunk_id)
    return found


def open_original(*, file: models.File) -> tuple[IO[bytes], int]:
    """Return the open bytes and their number; raise NotFoundError when they are missing.

    The connection to the database is given back: a slow reader must not hold one.
    """
    content = file.content
    if not content or not content.storage.exists(str(content.name)):
        raise NotFoundError(
            "The stored bytes of “{name}” are missing.",
            hint="Upload the file again.",
            name=file.name,
        )
    size, opened = content.size, content.open("rb")
    release_db()
    return opened, size


async def stream_bytes(content: IO[bytes], length: int) -> AsyncIterator[bytes]:
    """Yield the next ``length`` bytes; ASGI would read an ordinary iterator to its end first."""
    left = length
    try:
        while piece := await asyncio.to_thread(content.read, min(PIECE, left)):
            left -= len(piece)
            yield piece
    finally:
        content.close()


async def stream_lines(*, lines: Iterator[str]) -> AsyncIterator[bytes]:
    """Yield the lines in UTF-8, about 64 KB at a time.

    Under ASGI an ordinary iterator would be read to its end before the first byte is sent.
    """
    while piece := await sync_to_async(_piece)(lines):
        yield piece


def _piece(lines: Iterator[str]) -> bytes:
    lines_taken: list[str] = []
    size = 0
    try:
        for line in lines:
            lines_taken.append(line)
            size += len(line)
            if size >= LINES_PIECE:
                break
    finally:
        release_db()
    return "".join(lines_taken).encode()
