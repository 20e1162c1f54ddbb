"""Quotes of an answer: the pinned text of a citation, its page and the page's image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agents import models
from agents.chat.history.evidence import can_open_source, cited_hit
from rag.core.access import Scope
from rag.core.documents import PageImage
from rag.core.errors import InvalidInputError, NotFoundError
from rag.core.hits import Hit
from rag.services.answers import PageText, page_image, page_text, pin_hits


def cited_text(*, message: models.Message, number: int, scope: Scope) -> dict[str, Any]:
    """Return the citation with ``text``, its passage in the revision that was quoted.

    Passages of stores are read anew, retired ones too; what a page sent along is kept with the
    answer. ``start`` and ``end`` are where in that text the quote is, None where it is not. Raises
    NotFoundError for another number, and for a text that is gone or may not be read any more.
    """
    cited = _cited(message, number, "citations")
    if cited.get("chunk_id") is None:
        hit = _sent_along(message, cited, scope)
    else:
        (hit,) = pin_hits(hits=[cited_hit(message=message, cited=cited)], scope=scope)
    if not hit.text:
        raise NotFoundError("The text that was quoted cannot be read.", number=number)
    words = cited.get("found") or cited.get("quote") or ""
    start = _find_nearest(hit.text, words, (cited.get("char_start") or 0) - hit.char_start)
    return {
        **cited,
        "text": hit.text,
        "start": start,
        "end": None if start is None else start + len(words),
        "heading_path": list(hit.heading_path),
        "source": hit.source,
    }


def _sent_along(message: models.Message, cited: Mapping[str, Any], scope: Scope) -> Hit:
    """Return what a page sent along, empty for a citation that nothing is known of."""
    for source in message.sources:
        if source.get("doc_id") == cited.get("doc_id") and source.get("chunk_id") is None:
            hit = Hit.from_dict(source)
            return hit if can_open_source(hit=hit, scope=scope) else Hit(text="", rank=1)
    return Hit(text="", rank=1)


def _find_nearest(text: str, words: str, near: int) -> int | None:
    """Return where words stand, of several places the one nearest to ``near``."""
    places, at = [], text.find(words) if words else -1
    while at >= 0:
        places.append(at)
        at = text.find(words, at + 1)
    return min(places, key=lambda place: abs(place - near)) if places else None


def quote_page(
    *, message: models.Message, number: int, scope: Scope, of: str = "citations"
) -> dict[str, Any]:
    """Return the page's text with the place of the quote, and what the answer said about it.

    ``of`` citations: ``number`` is the citation's. ``of`` sources: it counts what was looked at,
    from 1, and the whole passage is marked. Raises NotFoundError for another number and for a text
    that is gone or may not be read any more.
    """
    cited = _cited(message, number, of)
    page = _page(message, cited, scope)
    facts = ("quote", "verdict", "claim", "found", "distance", "doc_id", "score")
    fields = {name: cited.get(name) for name in facts}
    omitted = cited.get("omitted") or []
    return {**fields, **asdict(page), "omitted": omitted, "number": number}


def quote_image(
    *, message: models.Message, number: int, scope: Scope, of: str = "citations"
) -> PageImage:
    """Return the picture of the page with the boxes of the quote on it; see ``quote_page``.

    Raises InvalidInputError where the format has no pages to draw, or where the file has changed.
    """
    cited = _cited(message, number, of)
    page = _page(message, cited, scope)
    if not page.has_image or page.page is None:
        raise InvalidInputError("“{name}” has no pages to draw.", name=page.file_name)
    return page_image(
        file_id=page.file_id,
        page=page.page,
        quote=page.on_page,
        omitted=cited.get("omitted") or (),
        around=(page.text[: page.start or 0], page.text[page.end or 0 :]),
        scope=scope,
    )


def _page(message: models.Message, cited: Mapping[str, Any], scope: Scope) -> PageText:
    if cited.get("chunk_id") is None:
        raise NotFoundError("The text that was quoted cannot be read.")
    # What was looked at is marked as a whole.
    quote = cited.get("found") or cited.get("quote") or cited.get("content") or ""
    hit = cited_hit(message=message, cited=cited)
    return page_text(hit=hit, quote=quote, scope=scope, near=cited.get("char_start"))


def _cited(message: models.Message, number: int, of: str) -> Mapping[str, Any]:
    if of == "sources":
        found = message.sources[number - 1 : number] if number > 0 else []
    else:
        found = [one for one in message.citations if one.get("number") == number]
    if not found:
        raise NotFoundError("The answer has no citation {number}.", number=number)
    one: Mapping[str, Any] = found[0]
    return one
