"""Golden questions from CSV. In: the bytes of a file. Out: questions, and the lines refused.

One line a passage: question, grade, file, passage, chunk, enabled, note, origin. Only the question
must be there; a file without a passage means any of its chunks.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, LimitError, RAGError
from rag.services.golden_export import FIELDS, FORMULAS
from rag.services.golden_places import Places
from rag.services.golden_questions import check_editable
from rag.services.save_questions import Asked, save_questions
from rag.services.search import checked_query
from rag.stages.decode import decode_text

MAX_BYTES, MAX_LINES = 10_000_000, 10_000
_NO = ("0", "false", "no", "off", "否")


@dataclass(frozen=True, slots=True)
class Imported:
    """How many questions were new and how many completed, and the lines that were refused."""

    n_new: int
    n_known: int
    problems: tuple[tuple[int, RAGError], ...]


def import_questions(*, scope: Scope, store: models.Store, data: bytes, by: Any) -> Imported:
    """Take the lines of a CSV file into a store; a line that is refused does not stop the others.

    Raises InvalidInputError, LimitError, ForbiddenError and NotFoundError for the file as a whole.
    """
    check_editable(scope=scope, store=store)
    rows = list(_rows(data))
    places = Places(store, rows)
    asked: list[Asked] = []
    problems: list[tuple[int, RAGError]] = []
    for number, row in rows:
        try:
            asked.append(
                Asked(
                    checked_query(query=row["question"]), places.wanted(number, row),
                    {
                        "origin": models.GoldenQuestion.Origin.CSV, "note": row["note"],
                        "enabled": row["enabled"].lower() not in _NO, "created_by": by,
                    },
                )
            )  # fmt: skip
        except RAGError as error:
            problems.append((number, error))
    return Imported(*save_questions(store=store, asked=asked), tuple(problems))


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
            line=reader.reader.line_num, limit=csv.field_size_limit(),
        ) from error  # fmt: skip


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
