"""What an answer quoted, as it stood then. In: an answer, a number. Out: the text it pinned."""

from __future__ import annotations

from typing import Any

from agents import models
from rag.core.access import Scope
from rag.core.errors import NotFoundError
from rag.core.hits import Hit
from rag.services.pinned_texts import pinned_hits


def cited_text(*, message: models.Message, number: int, scope: Scope) -> dict[str, Any]:
    """Return the citation with ``text``, its chunk in the revision that was quoted.

    ``start`` and ``end`` are where in that text the quote is, None where it is not. Raises
    NotFoundError for another number, and for a text that is gone or may not be read any more.
    """
    cited = next((one for one in message.citations if one.get("number") == number), None)
    if cited is None:
        raise NotFoundError("The answer has no citation {number}.", number=number)
    hit = Hit(text="", rank=1, chunk_id=cited.get("chunk_id"), revision=cited.get("revision"))
    (pinned,) = pinned_hits(hits=[hit], scope=scope) if hit.chunk_id is not None else (hit,)
    if not pinned.text:
        raise NotFoundError("The text that was quoted cannot be read.", number=number)
    at = pinned.text.find(cited.get("found") or cited.get("quote") or "\0")
    end = at + len(cited.get("found") or cited["quote"]) if at >= 0 else None
    return {
        **cited, "text": pinned.text, "start": at if at >= 0 else None, "end": end,
        "heading_path": list(pinned.heading_path),
    }  # fmt: skip
