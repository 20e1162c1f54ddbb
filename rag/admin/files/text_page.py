"""Text page of a file, window by window with page and chunk borders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.db.models.functions import Length, Substr
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.ui.admin_page import ObjectPage
from rag.admin.ui.query_params import parse_int


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A stretch of text; ``chunk`` is given where one begins, ``parity`` is its colour.

    ``is_first`` is the first of what is marked.
    """

    text: str
    is_marked: bool = False
    is_first: bool = False
    chunk: models.Chunk | None = None
    parity: int | None = None
    is_off: bool = False


def split_into_pages(
    text: str,
    start: int,
    pages: Sequence[dict[str, Any]],
    mark: tuple[int, int],
    chunks: Sequence[models.Chunk],
) -> list[dict[str, Any]]:
    """Return the window's pages, each split into pieces at chunk borders and at the mark.

    ``text`` begins at the character ``start`` of the file; the pieces joined are the text again.
    """
    end = start + len(text)
    whole: list[dict[str, Any]] = [
        {"number": None, "label": "", "start": start, "end": end, "has_text_layer": True}
    ]
    sections = []
    for page in pages or whole:
        # A page without text has no character of its own, but is a page all the same.
        is_empty_here = page["start"] == page["end"] and start <= page["start"] <= end
        if not is_empty_here and (page["end"] <= start or page["start"] >= end):
            continue
        first, last = max(page["start"], start), min(page["end"], end)
        marked = max(first, min(mark[0], last)), max(first, min(mark[1], last))
        borders = {cut for one in chunks for cut in (one.own_start, one.char_end)}
        cuts = sorted({first, *marked, last, *(cut for cut in borders if first < cut < last)})
        pieces = [
            _piece(text[left - start : right - start], left, marked, chunks)
            for left, right in pairwise(cuts)
        ]
        sections.append({**page, "pieces": pieces, "is_continued": page["start"] < start})
    return sections


def _piece(
    text: str, left: int, marked: tuple[int, int], chunks: Sequence[models.Chunk]
) -> TextPiece:
    is_marked = marked[0] <= left < marked[1]
    for number, chunk in enumerate(chunks):
        if chunk.own_start <= left < chunk.char_end:
            begins = chunk if left == chunk.own_start else None
            return TextPiece(
                text, is_marked, left == marked[0], begins, number % 2, not chunk.enabled
            )
    return TextPiece(text, is_marked, left == marked[0])


WINDOW = 30_000


class FileTextPage(ObjectPage):
    """The canonical text, 30,000 characters at a time, as the chunks were cut from it."""

    template_name = "admin/rag/file_text.html"
    permission_required = ("rag.view_file",)
    title = _("Text")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the window around the character ``at``, cut at page borders."""
        rows = models.File.objects.filter(pk=self.row.pk)
        length, pages = rows.values_list(Length("canonical_text"), "pages").get()
        first, last = _mark(self.request)
        start = min(first, max(0, length - 1)) // WINDOW * WINDOW
        end = min(length, start + WINDOW)
        text = rows.values_list(Substr("canonical_text", start + 1, WINDOW), flat=True).get() or ""
        return super().get_context_data(
            **kwargs,
            file=self.row,
            sections=split_into_pages(text, start, pages, (first, last), self._chunks(start, end)),
            before=start - WINDOW if start else None,
            after=end if end < length else None,
            start=start,
            end=end,
            length=length,
        )

    def _chunks(self, start: int, end: int) -> list[Any]:
        """Return the window's live chunks if the user may view chunks."""
        if not self.request.user.has_perm("rag.view_chunk"):
            return []
        live = models.Chunk.objects.live().filter(file=self.row.pk, char_end__gt=start)
        spans = live.filter(char_start__lt=end).exclude(origin=models.Chunk.Origin.ADDED)
        return list(
            spans.order_by("char_end", "ordinal").only(
                "ordinal", "char_start", "own_start", "char_end", "enabled", "origin"
            )
        )


def _mark(request: HttpRequest) -> tuple[int, int]:
    """Return the span that ``?at=from-to`` asks to be marked; an empty one at 0 without."""
    first, _dash, last = request.GET.get("at", "").partition("-")
    return parse_int(first), max(parse_int(first), parse_int(last))
