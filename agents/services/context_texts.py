"""Selected text and entities of a page. In: a PageContext, a budget. Out: hits, and lines."""

from __future__ import annotations

import re

from agents.core.page_context import PageContext
from rag.core.hits import Hit
from rag.services.count_tokens import count_tokens
from rag.services.word_share import word_share

PIECE = 1500
_BREAK = re.compile(r"\n\s*\n|(?<=[。！？!?])|(?<=\.)\s+|\n")


def selected_hits(page: PageContext, query: str, max_tokens: int) -> list[Hit]:
    """Return the selected text in pieces within a budget, in order.

    Of a text that is too long the pieces that share words with the question are kept first.
    """
    pieces = _pieces(page.text)
    order = sorted(range(len(pieces)), key=lambda n: -word_share(query=query, text=pieces[n][1]))
    if sum(count_tokens(text) for _, text in pieces) <= max_tokens:
        order = list(range(len(pieces)))
    kept, left = [], max_tokens
    for number in order:
        if (spent := count_tokens(pieces[number][1])) <= left:
            kept.append(number)
            left -= spent
    name = page.title.strip() or page.url or "selection"
    return [
        Hit(
            text=text, rank=1, source="page", file_name=name[:500], external_id=page.url[:500],
            content_type="selection", char_start=start, char_end=start + len(text),
        )
        for start, text in (pieces[number] for number in sorted(kept))
    ]  # fmt: skip


def about_page(page: PageContext, max_tokens: int) -> str:
    """Return lines on the page and its entities within a budget."""
    lines = []
    if page.title.strip() or page.url:
        lines.append(" ".join(filter(None, [page.title.strip(), page.url])))
    for entity in page.entities:
        name = entity.get("name", "")
        facts = ", ".join(f"{key}: {value}" for key, value in entity.items() if key != "name")
        lines.append(f"- {name} ({facts})" if facts else f"- {name}")
    while lines and count_tokens("\n".join(lines)) > max_tokens:
        lines.pop()
    return "\n".join(lines)


def _pieces(text: str) -> list[tuple[int, str]]:
    """Return the text in pieces with their places, cut between paragraphs or sentences."""
    ends = [match.end() for match in _BREAK.finditer(text)] + [len(text)]
    pieces: list[tuple[int, str]] = []
    start = 0
    for number, end in enumerate(ends):
        following = ends[number + 1] if number + 1 < len(ends) else end
        if following - start <= PIECE and end != len(text):
            continue
        for at in range(start, end, PIECE):
            piece = text[at : min(end, at + PIECE)]
            if piece.strip():
                lead = len(piece) - len(piece.lstrip())
                pieces.append((at + lead, piece.strip()))
        start = end
    return pieces
