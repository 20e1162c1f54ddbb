"""What led to an answer, as its page shows it. In: a logged query. Out: a template's context."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.cells import label, pages_text
from rag.admin.trial import STEPS
from rag.core.access import Scope

PREVIEW = 400
VERDICTS = {
    "verified": (_("word for word"), "good"), "altered": (_("altered"), "warn"),
    "wrong_document": (_("from another source"), "bad"), "unknown": (_("not found"), "bad"),
}  # fmt: skip


def trace(row: models.QueryLog, scope: Scope) -> dict[str, Any]:
    """Return hits that ``scope`` may read now, citations with their verdicts, and times.

    A chunk that is gone, or may not be read any more, keeps its place without a text.
    """
    chunks = models.Chunk.objects.readable(scope).filter(pk__in=row.chunk_ids)
    heavy = ("canonical_text", "pages", "blocks")
    known = {
        chunk.pk: chunk
        for chunk in chunks.select_related("file").defer(*(f"file__{name}" for name in heavy))
    }
    stores = models.Store.objects.readable(scope).filter(pk__in=row.store_ids)
    names = dict(models.File.objects.readable(scope).filter(
        pk__in={one["file_id"] for one in row.citations if one.get("file_id")}
    ).values_list("pk", "name"))  # fmt: skip
    longest = max((float(ms) for name, ms in row.timings_ms.items() if name != "total"), default=0)
    return {
        "row": row,
        "stores": list(stores.order_by("name").values("pk", "name")),
        "hits": [
            {"rank": rank, "chunk": known.get(pk), "pk": pk,
             "pages": pages_text(known[pk].page_first, known[pk].page_last) if pk in known else "",
             "start": known[pk].text[:PREVIEW] if pk in known else ""}
            for rank, pk in enumerate(row.chunk_ids, 1)
        ],
        "citations": [
            {**one, "label": label(*VERDICTS.get(one.get("verdict"), (one.get("verdict"), "idle"))),
             "may_read": one.get("file_id") in names,
             "file_name": one.get("file_name") or names.get(one.get("file_id"), "")}
            for one in row.citations
        ],
        "times": [
            {"name": STEPS.get(name, name), "ms": float(ms),
             "share": 100 * float(ms) / longest if longest else 0}
            for name, ms in row.timings_ms.items()
        ],
        "is_cached": "cache" in row.timings_ms and "sql" not in row.timings_ms,
    }  # fmt: skip
