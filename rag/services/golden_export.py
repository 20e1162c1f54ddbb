"""Golden questions to CSV. In: a queryset. Out: lines that another installation takes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from django.db.models import Prefetch, QuerySet

from rag import models

PAGE = 200
FIELDS = ("question", "grade", "file", "passage", "chunk", "enabled", "note", "origin")
# What a spreadsheet would take for a formula.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def export_questions(*, questions: QuerySet[models.GoldenQuestion]) -> Iterator[str]:
    """Yield the lines of a CSV file, the header first; cells are safe in a spreadsheet.

    A page of questions is read at a time and nothing is kept open between two: who downloads
    slowly holds neither memory nor a connection.
    """
    yield _line(FIELDS)
    numbers = list(questions.order_by("pk").values_list("pk", flat=True))
    rows = models.GoldenQuestion.objects.order_by("pk").prefetch_related(
        "targets",
        Prefetch("targets__file", models.File.objects.only("name")),
        Prefetch("targets__chunk", models.Chunk.objects.only("text")),
    )
    for start in range(0, len(numbers), PAGE):
        for question in rows.filter(pk__in=numbers[start : start + PAGE]):
            yield from _lines(question)


def _lines(question: models.GoldenQuestion) -> Iterator[str]:
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
