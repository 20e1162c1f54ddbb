"""List columns and small table cells as escaped HTML: labels, page ranges, texts and links."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString

STATE_COLOURS = {
    "running": "busy",
    "ready": "warn",
    "refused": "bad",
    "swapped": "good",
    "done": "good",
    "failed": "bad",
}


def column(description: Any, cell: Callable[[Any], Any], *, ordering: str | None = None) -> Any:
    """Return a column of a list, or a read-only field: what ``cell`` returns for a row."""
    return staticmethod(admin.display(description=description, ordering=ordering)(cell))


def label(text: Any, colour: str) -> SafeString:
    """Return a coloured badge; colours are idle, busy, good, warn and bad."""
    return format_html('<span class="desk-label desk-{}">{}</span>', colour, text)


def join_cells(cells: Iterable[Any], *, by: str = " ") -> SafeString:
    """Return cells as one; empty if there are none."""
    return format_html_join(by, "{}", ((cell,) for cell in cells))


def state_label(run: Any) -> SafeString:
    """Return the state of an evaluation or reindex run as a badge."""
    return label(run.get_state_display(), STATE_COLOURS.get(run.state, "idle"))


def text_block(text: str) -> SafeString:
    """Return a text with its line breaks."""
    return format_html('<pre class="desk-text">{}</pre>', text)


def pages_text(first: int | None, last: int | None) -> str:
    """Return a page or a range of pages; a dash where the format has none."""
    if first is None:
        return "–"
    return str(first) if last in (None, first) else f"{first}–{last}"


def list_link(model: str, text: Any, **query: Any) -> SafeString:
    """Return a link to the list of a model, such as ``rag_store``, filtered by ``query``."""
    url = reverse(f"admin:{model}_changelist")
    return format_html('<a class="desk-link" href="{}?{}">{}</a>', url, urlencode(query), text)


def page_link(name: str, pk: int, text: Any, **query: Any) -> SafeString:
    """Return a link to a page of one row, such as ``rag_store_search``."""
    url = reverse(f"admin:{name}", args=[pk])
    mark = f"?{urlencode(query)}#mark" if query else ""
    return format_html('<a class="desk-link" href="{}{}">{}</a>', url, mark, text)
