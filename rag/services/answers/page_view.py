"""Page view of a citation: a page as PNG with the quote marked, or the text around it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage
from django.db.models.functions import Length, Substr

from rag import models
from rag.core.access import Scope
from rag.core.documents import IMAGE_KINDS, MarkedQuote, PageImage
from rag.core.errors import InvalidInputError, LimitError, NotFoundError
from rag.core.hits import Hit
from rag.providers.cache.memory_cache import MemoryCache
from rag.providers.cache.sealed_cache import SingleFlight
from rag.providers.postgres.db.connections import release_db
from rag.providers.sandbox.page_renderer import PageRenderer
from rag.services.answers.citations import pin_hits

# Kinds whose pages can be drawn.
DRAWN = ("pdf", *IMAGE_KINDS)
KEPT_S, WAIT_S = 600.0, 20.0
# In this process's memory alone: what is deleted must not stay behind as a picture on a disk.
_KEPT = MemoryCache(max_items=200, max_bytes=48 * 1024**2)
_FLIGHTS = SingleFlight(_KEPT, before_wait=release_db)
_ROOM = threading.BoundedSemaphore(2)


def page_image(
    *,
    file_id: int,
    page: int,
    scope: Scope,
    quote: str = "",
    omitted: Sequence[Sequence[int]] = (),
    around: tuple[str, str] = ("", ""),
) -> PageImage:
    """Return a page of a PDF or an image; boxes are where ``quote`` without ``omitted`` stands.

    ``around`` is the text before and behind it, which tells equal words apart.
    Raises NotFoundError for a file that may not be read or whose bytes are gone, InvalidInputError
    for one that has no pages to draw, DocumentError for a page that cannot be drawn, LimitError
    when too many are being drawn.
    """
    file = models.File.objects.readable(scope).light().filter(pk=file_id).first()
    if file is None:
        raise NotFoundError("There is no {kind} {id}.", kind="file", id=file_id)
    if file.kind not in DRAWN:
        raise InvalidInputError("“{name}” has no pages to draw.", name=file.name)
    if not file.content or not default_storage.exists(str(file.content.name)):
        raise NotFoundError(
            "The stored bytes of “{name}” are missing.",
            hint="Upload the file again.",
            name=file.name,
        )
    path, name = Path(default_storage.path(str(file.content.name))), file.name
    marked = MarkedQuote(quote, [list(span) for span in omitted], around)
    scan = _scan(file, page) if quote else ""
    digest = hashlib.sha256(f"{json.dumps(asdict(marked))}{scan}".encode()).hexdigest()
    key = f"{file.sha256}:{page}:{digest}"
    release_db()

    def draw() -> bytes:
        with _room():
            drawn = PageRenderer().render(path, name, page=page, marked=marked, scan=scan)
        packed = _packed(drawn)
        _KEPT.set(key, packed, KEPT_S)
        return packed

    kept, _ = _FLIGHTS.run(key, lambda: _KEPT.get(key), draw)
    return _unpacked(kept)


def _scan(file: models.File, page: int) -> str:
    """Return the words that OCR has recognized on a page, empty where it has not."""
    scans = models.ScannedPage.objects.filter(file=file, sha256=file.sha256, number=page)
    return scans.filter(has_failed=False).values_list("words", flat=True).first() or ""


@contextmanager
def _room() -> Iterator[None]:
    if not _ROOM.acquire(timeout=WAIT_S):
        raise LimitError("Too many pages are being drawn.", hint="Try again in a moment.")
    try:
        yield
    finally:
        _ROOM.release()


def _packed(drawn: PageImage) -> bytes:
    facts = json.dumps([drawn.width, drawn.height, drawn.boxes])
    return facts.encode() + b"\n" + drawn.png


def _unpacked(packed: bytes) -> PageImage:
    facts, _, png = packed.partition(b"\n")
    width, height, boxes = json.loads(facts)
    return PageImage(png, width, height, tuple(tuple(box) for box in boxes))


# What is shown of a document without pages, on each side, and most of one with them.
AROUND = 2000
MAX_SHOWN = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PageText:
    """``text[start:end]`` is the quote; None where the text does not hold it.

    ``page`` is the quote's first one, None in formats without pages. ``on_page`` is the part of
    the quote that stands there. ``is_current`` False: the file says something else today, and the
    text is that of the chunk as it was quoted. ``has_image``: the page can be drawn. ``url`` opens
    the document where it comes from, empty where it was uploaded.
    """

    file_id: int
    file_name: str
    kind: str
    page: int | None
    label: str
    text: str
    start: int | None
    end: int | None
    on_page: str
    is_current: bool
    has_image: bool
    heading_path: tuple[str, ...]
    url: str = ""


def page_text(*, hit: Hit, quote: str, scope: Scope, near: int | None = None) -> PageText:
    """Return the page that a quote of a hit stands on; an empty quote is all of the hit.

    ``near`` is where the quote began in the file's text: of a hit that was made of several chunks
    perhaps only the first was pinned. Raises NotFoundError for a text that is gone or may not be
    read.
    """
    (pinned,) = pin_hits(hits=[hit], scope=scope)
    if not pinned.text or pinned.file_id is None:
        raise NotFoundError("The text that was quoted cannot be read.")
    rows = models.File.objects.readable(scope).filter(pk=pinned.file_id)
    columns = ("kind", "pages", Length("canonical_text"), "metadata")
    kind, pages, n_all, metadata = rows.values_list(*columns).get()
    words = quote or pinned.text
    at, first = pinned.text.find(words), pinned.char_start or 0
    places = [near] if near is not None else []
    begin = _current(rows, words, [*places, *([first + at] if at >= 0 else [])])
    if begin is None:
        text, at = _as_it_was(pinned.text, words, at, pinned.file_id, near)
        page, span = None, (at, at + len(words)) if at >= 0 else (None, None)
    else:
        low, high = _window(pages, begin, begin + len(words), n_all)
        text = rows.values_list(Substr("canonical_text", low + 1, high - low), flat=True).get()
        page = _page_at(pages, begin)
        span = (begin - low, min(begin + len(words), high) - low)
    return PageText(
        file_id=pinned.file_id,
        file_name=pinned.file_name,
        kind=kind,
        page=page["number"] if page else pinned.page_first,
        label=page["label"] if page else "",
        text=text or "",
        start=span[0],
        end=span[1],
        is_current=begin is not None,
        on_page=words[: max(0, page["end"] - begin)] if page and begin is not None else "",
        has_image=bool(kind in DRAWN and page),
        heading_path=pinned.heading_path,
        url=models.File(metadata=metadata).origin_url,
    )


def _current(rows: Any, words: str, places: list[int]) -> int | None:
    """Return the first of the places where the file says the words today."""
    for place in places:
        here = Substr("canonical_text", place + 1, len(words))
        if rows.values_list(here, flat=True).get() == words:
            return place
    return None


def _as_it_was(text: str, words: str, at: int, file_id: int, near: int | None) -> tuple[str, int]:
    """Return a passage that holds the words and where; a retired chunk's, if the pinned has not."""
    if at < 0 and near is not None:
        # Whoever may read the pinned chunk may read its file, and so this one.
        chunks = models.Chunk.objects.filter(
            file=file_id, char_start__lte=near, char_end__gt=near, text__contains=words
        )
        found = chunks.order_by("-file_revision").values_list("text", flat=True).first()
        if found is not None:
            return found, found.find(words)
    return text, at


def _page_at(pages: list[dict[str, Any]], at: int) -> dict[str, Any] | None:
    return next((page for page in pages if page["start"] <= at < page["end"]), None)


def _window(pages: list[dict[str, Any]], begin: int, end: int, n_all: int) -> tuple[int, int]:
    """Return what is shown around a quote: the pages that it touches, or some text on each side."""
    touched = [page for page in pages if page["start"] < end and page["end"] > begin]
    low = touched[0]["start"] if touched else max(0, begin - AROUND)
    high = touched[-1]["end"] if touched else min(n_all, end + AROUND)
    if high - low > MAX_SHOWN:
        low, high = max(low, begin - AROUND), min(high, max(end, begin) + AROUND)
    return low, min(high, low + MAX_SHOWN)
