"""Chunks as JSON lines, for other programs. In: a Scope and files. Out: a line for each chunk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rag import models
from rag.core.access import Scope

PAGE = 500
_FACTS = (
    "pk", "file", "file__name", "ordinal", "text", "context", "char_start", "char_end",
    "page_first", "page_last", "heading_path", "token_count", "content_type", "enabled", "origin",
    "revision",
)  # fmt: skip


def export_chunks(*, scope: Scope, file_ids: Sequence[int]) -> Iterator[str]:
    """Yield the live chunks of readable files, switched-off ones too, in order of the text.

    A page of chunks is read at a time and nothing is kept open between two.
    """
    for file_id in file_ids:
        chunks = models.Chunk.objects.readable(scope).live().filter(file=file_id)
        chunks = chunks.order_by("char_end", "ordinal")
        numbers = list(chunks.values_list("pk", flat=True))
        for start in range(0, len(numbers), PAGE):
            page = chunks.filter(pk__in=numbers[start : start + PAGE])
            for row in page.values(*_FACTS):
                facts = {"id": row.pop("pk"), "file_name": row.pop("file__name"), **row}
                yield json.dumps(facts, ensure_ascii=False) + "\n"
