"""A piece of a document's text. In: its id, who asks, where to begin. Out: the text."""

from __future__ import annotations

from typing import Any

from django.db.models.functions import Length, Substr

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, NotFoundError

MAX_CHARACTERS = 100_000
_MAX_ID = 2**63 - 1


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
            hint="Ask the store about it, or wait until the file is indexed.", name=file.name,
        )  # fmt: skip
    length, text = (
        models.File.objects.filter(pk=file.pk)
        .values_list(Length("canonical_text"), Substr("canonical_text", start + 1, limit))
        .get()
    )
    text = text or ""
    end = start + len(text)
    return {
        "document": str(file.pk), "file": file.name, "store": file.store.slug,
        "revision": file.revision, "content_type": file.content_type, "metadata": file.metadata,
        "text": text, "start": start, "end": end, "length": length,
        "next_start": end if end < length else None,
    }  # fmt: skip
