"""Where an answer's quote or source stands. In: an answer, a number. Out: its page, its picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agents import models
from rag.core.access import Scope
from rag.core.drawn_page import DrawnPage
from rag.core.errors import InvalidInputError, NotFoundError
from rag.services.page_image import page_image
from rag.services.page_text import PageText, page_text


def quote_page(
    *, message: models.Message, number: int, scope: Scope, of: str = "citations"
) -> dict[str, Any]:
    """Return the page's text with the place of the quote, and what the answer said about it.

    ``of`` citations: ``number`` is the citation's. ``of`` sources: it counts what was looked at,
    from 1, and the whole passage is marked. Raises NotFoundError for another number and for a text
    that is gone or may not be read any more.
    """
    cited = _cited(message, number, of)
    page = _page(cited, scope)
    facts = ("quote", "verdict", "claim", "found", "distance", "doc_id", "score")
    told = {name: cited.get(name) for name in facts}
    return {**told, **asdict(page), "number": number}


def quote_image(
    *, message: models.Message, number: int, scope: Scope, of: str = "citations"
) -> DrawnPage:
    """Return the picture of the page with the boxes of the quote on it; see ``quote_page``.

    Raises InvalidInputError where the format has no pages to draw, or where the file has changed.
    """
    page = _page(_cited(message, number, of), scope)
    if not page.has_image or page.page is None:
        raise InvalidInputError("“{name}” has no pages to draw.", name=page.file_name)
    return page_image(file_id=page.file_id, page=page.page, quote=page.on_page, scope=scope)


def _page(cited: Mapping[str, Any], scope: Scope) -> PageText:
    chunk_id = cited.get("chunk_id")
    if chunk_id is None:
        raise NotFoundError("The text that was quoted cannot be read.")
    # What was looked at is marked as a whole.
    quote = cited.get("found") or cited.get("quote") or cited.get("content") or ""
    return page_text(
        chunk_id=chunk_id, revision=cited.get("revision"), quote=quote, scope=scope,
        near=cited.get("char_start"),
    )  # fmt: skip


def _cited(message: models.Message, number: int, of: str) -> Mapping[str, Any]:
    if of == "sources":
        found = message.sources[number - 1 : number] if number > 0 else []
    else:
        found = [one for one in message.citations if one.get("number") == number]
    if not found:
        raise NotFoundError("The answer has no citation {number}.", number=number)
    one: Mapping[str, Any] = found[0]
    return one
