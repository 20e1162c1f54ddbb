"""Page context: selected text and documents of the page a person looks at, as hits to be cited.

Documents come by the guarded fetch and are parsed like files; a failure there is none of the
answer. The token budget is shared: half for the selected text, the rest for the documents.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from agents.core.page_context import PageContext, PageRead
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ProviderTimeoutError, RAGError
from rag.core.hits import Hit
from rag.services.answers import fetch_page
from rag.services.search import lexical_overlap
from rag.services.threads import run_external
from rag.services.tokens import count_tokens
from rag.stages.prompting.context import build_context

PIECE = 1500
_BREAK = re.compile(r"\n\s*\n|(?<=[。！？!?])|(?<=\.)\s+|\n")


def selection_hits(page: PageContext, query: str, max_tokens: int) -> list[Hit]:
    """Return the selected text in pieces within a budget, in order.

    Of a text that is too long the pieces that share words with the question are kept first.
    """
    pieces = _pieces(page.text)
    order = sorted(
        range(len(pieces)), key=lambda n: -lexical_overlap(query=query, text=pieces[n][1])
    )
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
            text=text,
            rank=1,
            source="page",
            file_name=name[:500],
            external_id=page.url[:500],
            content_type="selection",
            char_start=start,
            char_end=start + len(text),
        )
        for start, text in (pieces[number] for number in sorted(kept))
    ]


def describe_page(page: PageContext, max_tokens: int) -> str:
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


MAX_URLS = 5
# So that a document that is late does not take the others with it.
_MARGIN = 0.9


async def read_page(
    *, page: PageContext, query: str, scope: Scope, max_tokens: int, timeout_s: float
) -> PageRead:
    """Return what there is within ``max_tokens``; documents that failed or were late are told."""
    deadline = Deadline(_MARGIN * timeout_s)
    about = describe_page(page, max_tokens // 4)
    selected = selection_hits(page, query, max_tokens // (2 if page.urls else 1))
    jobs = {
        asyncio.ensure_future(run_external(_document, url, query, scope, deadline)): url
        for url in dict.fromkeys(page.urls[:MAX_URLS])
    }
    try:
        late = (await asyncio.wait(jobs, timeout=deadline.remaining_s))[1] if jobs else ()
    finally:
        deadline.cancel()
    outcomes = [_late(jobs[job], timeout_s) if job in late else job.result() for job in jobs]
    documents = [one for one in outcomes if not isinstance(one, RAGError)]
    spent = sum(count_tokens(hit.text) for hit in selected)
    share = max(0, max_tokens - spent) // max(1, len(documents))
    hits = [*selected, *(hit for one in documents for hit in _within(one, share))]
    ranked = [replace(hit, rank=rank) for rank, hit in enumerate(hits, start=1)]
    failures = [one for one in outcomes if isinstance(one, RAGError)]
    return PageRead(ranked, about, failures)


def _document(url: str, query: str, scope: Scope, deadline: Deadline) -> list[Hit] | RAGError:
    shown = display_url(url)
    name = shown.rstrip("/").rpartition("/")[2] or shown
    try:
        hits = fetch_page(url=url, name=name, question=query, scope=scope, deadline=deadline)
    except RAGError as error:
        return error
    return [
        replace(hit, source="page", file_name=shown, external_id=shown, content_type="url")
        for hit in hits
    ]


def _within(hits: Sequence[Hit], max_tokens: int) -> list[Hit]:
    """Return as much of the hits as fits; what is cut is so for citations too."""
    kept = build_context(hits, max_tokens, count_tokens, context_type="xml").passages
    cut = []
    for passage in kept:
        start = passage.hit.char_start + max(0, passage.hit.text.find(passage.text))
        cut.append(
            replace(
                passage.hit,
                text=passage.text,
                char_start=start,
                char_end=start + len(passage.text),
            )
        )
    return cut


def display_url(url: str) -> str:
    """Return an address as it may be shown: its query may hold a key."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("?")[0][:200]
    return parts._replace(query="", fragment="", netloc=parts.netloc.rpartition("@")[2]).geturl()[
        :500
    ]


def _late(url: str, timeout_s: float) -> RAGError:
    return ProviderTimeoutError(
        "“{name}” was not read within {timeout_s} s.",
        hint="Try again, or leave it out.",
        name=display_url(url),
        timeout_s=f"{timeout_s:g}",
    )
