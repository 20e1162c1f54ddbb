"""What lines of a CSV file expect. In: rows that name files and passages. Out: chunks or files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rag import models
from rag.core.errors import InvalidInputError, NotFoundError
from rag.services.find_passages import find_passages
from rag.services.golden_questions import Wanted


class Places:
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
            passages = {number: said for number, said in named[name].items() if said[0]}
            if passages:
                self.held |= find_passages(file_id=file_id, passages=passages)
        told = (_number(row["chunk"]) for _, row in rows if not row["file"])
        chunks = models.Chunk.objects.filter(store=store, pk__in=set(filter(None, told)))
        self.file_of = dict(chunks.order_by().values_list("pk", "file"))

    def wanted(self, number: int, row: Mapping[str, str]) -> Wanted | None:
        """Return what a line expects, if anything; raise InvalidInputError or NotFoundError."""
        told = row["grade"] or "1"
        if told not in ("1", "2", "3"):
            raise InvalidInputError("The grade is {grade}.", hint="Allowed: 1, 2 or 3.", grade=told)
        grade = int(told)
        if row["file"]:
            file_id = self.files.get(row["file"])
            if file_id is None:
                raise NotFoundError("The store has no file “{name}”.", name=row["file"])
            if not row["passage"]:
                return Wanted(file_id=file_id, grade=grade)
            held = self.held[number]
            if not held:
                raise NotFoundError("“{name}” does not hold the passage.", name=row["file"])
            return Wanted(min(held), file_id, grade)
        if row["chunk"]:
            chunk_id = _number(row["chunk"])
            if chunk_id not in self.file_of:
                raise NotFoundError("There is no chunk {id}.", id=row["chunk"])
            return Wanted(chunk_id, self.file_of[chunk_id], grade)
        if row["passage"]:
            raise InvalidInputError("A passage needs its file.", hint="Fill in the column “file”.")
        return None


def _number(text: str) -> int:
    """Return a number of at most 18 digits; 0, which no chunk has, for all else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0
