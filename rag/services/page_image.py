"""A page of a PDF as a picture. In: a file, a page, a quote, who asks. Out: a PNG with marks."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.files.storage import default_storage

from rag import models
from rag.core.access import Scope
from rag.core.drawn_page import DrawnPage
from rag.core.errors import InvalidInputError, LimitError, NotFoundError
from rag.providers.cache.memory_cache import MemoryCache
from rag.providers.cache.single_flight import SingleFlight
from rag.providers.page_renderer import PageRenderer
from rag.providers.postgres.connections import release_db

KEPT_S, WAIT_S = 600.0, 20.0
# In this process's memory alone: what is deleted must not stay behind as a picture on a disk.
_KEPT = MemoryCache(max_items=200, max_bytes=48 * 1024**2)
_FLIGHTS = SingleFlight(_KEPT, before_wait=release_db)
_ROOM = threading.BoundedSemaphore(2)


def page_image(*, file_id: int, page: int, scope: Scope, quote: str = "") -> DrawnPage:
    """Return page ``page`` of a PDF; boxes are where ``quote`` stands on it.

    Raises NotFoundError for a file that may not be read or whose bytes are gone, InvalidInputError
    for one that has no pages to draw, DocumentError for a page that cannot be drawn, LimitError
    when too many are being drawn.
    """
    file = models.File.objects.readable(scope).light().filter(pk=file_id).first()
    if file is None:
        raise NotFoundError("There is no {kind} {id}.", kind="file", id=file_id)
    if file.kind != "pdf":
        raise InvalidInputError("“{name}” has no pages to draw.", name=file.name)
    if not file.content or not default_storage.exists(str(file.content.name)):
        raise NotFoundError(
            "The stored bytes of “{name}” are missing.", hint="Upload the file again.",
            name=file.name,
        )  # fmt: skip
    path, name = Path(default_storage.path(str(file.content.name))), file.name
    digest = hashlib.sha256(quote.encode("utf-8", "surrogatepass")).hexdigest()
    key = f"{file.sha256}:{page}:{digest}"
    release_db()

    def draw() -> bytes:
        with _room():
            drawn = PageRenderer().render(path, name, page=page, quote=quote)
        packed = _packed(drawn)
        _KEPT.set(key, packed, KEPT_S)
        return packed

    kept, _ = _FLIGHTS.run(key, lambda: _KEPT.get(key), draw)
    return _unpacked(kept)


@contextmanager
def _room() -> Iterator[None]:
    if not _ROOM.acquire(timeout=WAIT_S):
        raise LimitError("Too many pages are being drawn.", hint="Try again in a moment.")
    try:
        yield
    finally:
        _ROOM.release()


def _packed(drawn: DrawnPage) -> bytes:
    facts = json.dumps([drawn.width, drawn.height, drawn.boxes])
    return facts.encode() + b"\n" + drawn.png


def _unpacked(packed: bytes) -> DrawnPage:
    facts, _, png = packed.partition(b"\n")
    width, height, boxes = json.loads(facts)
    return DrawnPage(png, width, height, tuple(tuple(box) for box in boxes))
