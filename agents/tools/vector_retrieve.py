"""Tool vector_retrieve: searches stores and returns chunks with their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext_noop

from rag.core.errors import InvalidInputError
from rag.core.hits import Hit
from rag.core.options import option
from rag.core.plugins import register
from rag.core.tools import ToolCall
from rag.services.stores import readable_stores
from rag.stages.prompting.abstention import doubt_notice


@register("tool")
class VectorRetrieve:
    """Searches the knowledge base by meaning and by words."""

    name = "vector_retrieve"
    label = gettext_noop("Search the knowledge base")
    hosts = ()
    description = (
        "Searches the knowledge base and returns the passages that fit a question best, with file, "
        "page and score. Call it for anything that documents may say, with a question that can be "
        "understood by itself."
    )

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """What to look for, and where."""

        query: str = option(help="A question or words, understandable by itself.")
        stores: list[str] = option([], help="Stores by name; empty: all that may be read.")
        top_k: int = option(5, help="How many passages.", minimum=1, maximum=50)
        mode: Literal["auto", "semantic", "keyword", "hybrid"] = option(
            "hybrid", help="By meaning (semantic), by words (keyword) or both."
        )

    def run(self, call: ToolCall) -> dict[str, Any]:
        """Return ``results``, each in the shape of a hit too, and ``confidence`` (0 to 1).

        A ``notice`` says that they may not hold the answer, and what of it no document mentions.
        """
        asked = call.arguments
        names = asked.stores or [store.slug for store in readable_stores(scope=call.scope)]
        if not names:
            raise InvalidInputError("No store was chosen.", hint="Name at least one.")
        changes = {"mode": asked.mode, "top_k": asked.top_k}
        found = call.ports.search(asked.query, scope=call.scope, stores=names, changes=changes)
        call.deadline.check()
        told = {
            "results": [_told(hit) for hit in found.hits],
            "confidence": found.confidence or 0.0,
        }
        notice = doubt_notice(asked.query, found.answerability)
        return {**told, "notice": notice} if notice else told


def _told(hit: Hit) -> dict[str, Any]:
    return {
        "content": hit.text,
        "score": hit.score,
        "file": hit.file_name,
        "page": hit.page,
        "heading": " › ".join(hit.heading_path),
        "chunk_id": hit.chunk_id,
        "revision": hit.revision,
        "file_id": hit.file_id,
        "store_id": hit.store_id,
        "char_start": hit.char_start,
        "char_end": hit.char_end,
        "source": {"type": hit.content_type, "name": hit.file_name, "id": hit.document_id},
        "heading_path": list(hit.heading_path),
        "page_first": hit.page_first,
        "page_last": hit.page_last,
        # What a merged passage was made of, as a hit has it.
        **({"data": dict(hit.data)} if hit.data else {}),
    }
