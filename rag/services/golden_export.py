"""Golden questions to CSV. In: a queryset. Out: lines that another installation takes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from django.db.models import QuerySet

from rag import models

FIELDS = ("question", "grade", "file", "passage", "chunk", "enabled", "note", "origin")
# What a spreadsheet would take for a formula.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def export_questions(*, questions: QuerySet[models.GoldenQuestion]) -> Iterator[str]:
    """Yield the lines of a CSV file, the header first; cells are safe in a spreadsheet."""
    yield _line(FIELDS)
    rows = questions.order_by("pk").prefetch_related("targets__file", "targets__chunk")
    for question in rows.iterator(chunk_size=200):
        said = ("yes" if question.enabled else "no", question.note, question.origin)
        targets: Iterable[models.GoldenTarget | None] = list(question.targets.all()) or [None]
        for one in targets:
            place = ("", "", "", "") if one is None else (
                one.grade, one.file.name, one.chunk.text if one.chunk else "", one.chunk_id or "",
            )  # fmt: skip
            yield _line((question.query, *place, *said))


def _line(cells: Iterable[object]) -> str:
    out = io.StringIO()
    texts = (str(cell) for cell in cells)
    safe = (f"'{text}" if text.startswith(FORMULAS) else text for text in texts)
    csv.writer(out).writerow(safe)
    return out.getvalue()
