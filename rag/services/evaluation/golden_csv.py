"""CSV import and export of golden questions, one line a passage.

Columns: question, grade, file, passage, chunk, enabled, note, origin. Only the question is
required; a file without a passage means any of its chunks.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Prefetch, QuerySet

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, LimitError, NotFoundError, RAGError
from rag.services.chunks import find_passages
from rag.services.evaluation.golden_questions import (
    QuestionSpec,
    TargetSpec,
    check_editable,
    save_questions,
)
from rag.services.search import validated_query
from rag.stages.detect.decode import decode_text

PAGE = 200
FIELDS = ("question", "grade", "file", "passage", "chunk", "enabled", "note", "origin")
# What a spreadsheet would take for a formula.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
MAX_BYTES, MAX_LINES = 10_000_000, 10_000
_NO = ("0", "false", "no", "off", "否")


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
    cells = ("yes" if question.enabled else "no", question.note, question.origin)
    targets: Iterable[models.GoldenTarget | None] = list(question.targets.all()) or [None]
    for one in targets:
        target = (
            ("", "", "", "")
            if one is None
            else (one.grade, one.file.name, one.chunk.text if one.chunk else "", one.chunk_id or "")
        )
        yield _line((question.query, *target, *cells))


def _line(cells: Iterable[object]) -> str:
    out = io.StringIO()
    texts = (str(cell) for cell in cells)
    safe = (f"'{text}" if text.startswith(FORMULAS) else text for text in texts)
    csv.writer(out).writerow(safe)
    return out.getvalue()


class TargetResolver:
    """The files that rows name, and the chunks that hold their passages: each file read once."""

    def __init__(self, store: models.Store, rows: Sequence[tuple[int, Mapping[str, str]]]) -> None:
        named: dict[str, dict[int, tuple[str, int]]] = defaultdict(dict)
        for number, row in rows:
            if row["file"]:
                named[row["file"]][number] = row["passage"], 0
        files = models.File.objects.filter(store=store, name__in=named).order_by("pk")
        self.files = {name: pk for pk, name in files.values_list("pk", "name")}
        self.held: dict[int, frozenset[int]] = {}
        for name, file_id in self.files.items():
            passages = {number: passage for number, passage in named[name].items() if passage[0]}
            if passages:
                self.held |= find_passages(file_id=file_id, passages=passages)
        numbers = (_number(row["chunk"]) for _, row in rows if not row["file"])
        chunks = models.Chunk.objects.filter(store=store, pk__in=set(filter(None, numbers)))
        self.file_of = dict(chunks.order_by().values_list("pk", "file"))

    def wanted(self, number: int, row: Mapping[str, str]) -> TargetSpec | None:
        """Return what a line expects, if anything; raise InvalidInputError or NotFoundError."""
        given = row["grade"] or "1"
        if given not in ("1", "2", "3"):
            raise InvalidInputError(
                "The grade is {grade}.", hint="Allowed: 1, 2 or 3.", grade=given
            )
        grade = int(given)
        if row["file"]:
            file_id = self.files.get(row["file"])
            if file_id is None:
                raise NotFoundError("The store has no file “{name}”.", name=row["file"])
            if not row["passage"]:
                return TargetSpec(file_id=file_id, grade=grade)
            held = self.held[number]
            if not held:
                raise NotFoundError("“{name}” does not hold the passage.", name=row["file"])
            return TargetSpec(min(held), file_id, grade)
        if row["chunk"]:
            chunk_id = _number(row["chunk"])
            if chunk_id not in self.file_of:
                raise NotFoundError("There is no chunk {id}.", id=row["chunk"])
            return TargetSpec(chunk_id, self.file_of[chunk_id], grade)
        if row["passage"]:
            raise InvalidInputError("A passage needs its file.", hint="Fill in the column “file”.")
        return None


def _number(text: str) -> int:
    """Return a number of at most 18 digits; 0, which no chunk has, for all else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0


@dataclass(frozen=True, slots=True)
class ImportResult:
    """How many questions were new and how many completed, and the lines that were refused."""

    n_new: int
    n_known: int
    problems: tuple[tuple[int, RAGError], ...]


def import_questions(*, scope: Scope, store: models.Store, data: bytes, by: Any) -> ImportResult:
    """Take the lines of a CSV file into a store; a line that is refused does not stop the others.

    Raises InvalidInputError, LimitError, ForbiddenError and NotFoundError for the file as a whole.
    """
    check_editable(scope=scope, store=store)
    rows = list(_rows(data))
    resolver = TargetResolver(store, rows)
    specs: list[QuestionSpec] = []
    problems: list[tuple[int, RAGError]] = []
    for number, row in rows:
        try:
            specs.append(
                QuestionSpec(
                    validated_query(query=row["question"]),
                    resolver.wanted(number, row),
                    {
                        "origin": models.GoldenQuestion.Origin.CSV,
                        "note": row["note"],
                        "enabled": row["enabled"].lower() not in _NO,
                        "created_by": by,
                    },
                )
            )
        except RAGError as error:
            problems.append((number, error))
    return ImportResult(*save_questions(store=store, specs=specs), tuple(problems))


def _rows(data: bytes) -> Iterator[tuple[int, Mapping[str, str]]]:
    if len(data) > MAX_BYTES:
        raise LimitError("The file has more than {n} MB.", hint="Split it.", n=MAX_BYTES // 10**6)
    text = decode_text(data, "CSV")[0].lstrip("\ufeff").replace("\0", " ")
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        reader.fieldnames = _names(reader.fieldnames or ())
        for n, row in enumerate(reader):
            if n >= MAX_LINES:
                raise LimitError("The file has more than {n} lines.", hint="Split it.", n=MAX_LINES)
            yield reader.line_num, {name: _plain(row.get(name)) for name in FIELDS}
    except csv.Error as error:
        raise InvalidInputError(
            "Line {line} of the CSV cannot be read: a cell has more than {limit} characters.",
            hint="A quotation mark that is never closed makes one cell of all that follows it.",
            line=reader.reader.line_num,
            limit=csv.field_size_limit(),
        ) from error


def _names(cells: Iterable[str]) -> list[str]:
    names = [str(name).strip().lower() for name in cells]
    if "question" not in names:
        raise InvalidInputError(
            "The file has no column “question”.", hint="Columns: {names}.", names=", ".join(FIELDS)
        )
    return names


def _plain(cell: object) -> str:
    text = cell if isinstance(cell, str) else ""
    return text[1:] if text[:1] == "'" and text[1:2] in FORMULAS else text.strip()
