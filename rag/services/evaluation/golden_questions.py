"""Golden questions, made and completed. In: a Scope, a store and what is expected. Out: rows.

Many golden questions at once. In: lines that were checked. Out: how many are new or completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from rag import models
from rag.core.access import Scope
from rag.core.errors import ForbiddenError, InvalidInputError, NotFoundError
from rag.services.search.search import checked_query

MAX_TARGETS = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a question expects: a chunk, or any chunk of a file; ``grade`` is 1 to 3."""

    chunk_id: int | None = None
    file_id: int | None = None
    grade: int = 1


def save_question(
    *,
    scope: Scope,
    store: models.Store,
    query: str,
    wanted: Sequence[Wanted] = (),
    facts: dict[str, Any] | None = None,
) -> tuple[models.GoldenQuestion, bool]:
    """Return the store's question of these words and whether it is new.

    One that is there already gets the targets added to its own; ``facts`` (origin, note, enabled,
    created_by) are of a new one. Raises ForbiddenError, InvalidInputError and NotFoundError, and
    keeps nothing then.
    """
    check_editable(scope=scope, store=store)
    query = checked_query(query=query)
    targets = _resolved(store, wanted)
    with transaction.atomic():
        question, is_new = models.GoldenQuestion.objects.get_or_create(
            store=store, query=query, defaults=facts or {}
        )
        _add(question, targets)
    return question, is_new


def set_targets(*, scope: Scope, question: models.GoldenQuestion, wanted: Sequence[Wanted]) -> None:
    """Let a question expect exactly these; raises as ``save_question`` does."""
    check_editable(scope=scope, store=question.store)
    targets = _resolved(question.store, wanted)
    with transaction.atomic():
        question.targets.all().delete()
        _add(question, targets)
        question.save(update_fields=["updated_at"])


def check_editable(*, scope: Scope, store: models.Store) -> None:
    """Raise NotFoundError to who may not read a store, ForbiddenError to who only reads it."""
    stores = models.Store.objects.filter(pk=store.pk)
    if not stores.readable(scope).exists():
        raise NotFoundError("There is no store “{name}”.", name=store.pk)
    if not stores.editable(scope).exists():
        raise ForbiddenError("You may read “{name}”, not change it.", name=store.name)
    store.require_local()


def _resolved(store: models.Store, wanted: Sequence[Wanted]) -> list[models.GoldenTarget]:
    """Return unsaved targets, each once with its highest grade; all must be the store's."""
    if len(wanted) > MAX_TARGETS:
        raise InvalidInputError(
            "A question expects {n} passages.",
            hint="Allowed: {limit}.",
            n=len(wanted),
            limit=MAX_TARGETS,
        )
    chunk_ids = [one.chunk_id for one in wanted if one.chunk_id is not None]
    chunks = models.Chunk.objects.filter(pk__in=chunk_ids, store=store)
    file_of = dict(chunks.order_by().values_list("pk", "file"))
    file_ids = [one.file_id for one in wanted if one.file_id is not None]
    files = models.File.objects.filter(pk__in=file_ids, store=store)
    known = set(files.order_by().values_list("pk", flat=True))
    best: dict[tuple[int | None, int], int] = {}
    for one in wanted:
        if one.grade not in (1, 2, 3):
            raise InvalidInputError(
                "The grade is {grade}.", hint="Allowed: 1, 2 or 3.", grade=one.grade
            )
        if one.chunk_id is not None:
            file_id = file_of.get(one.chunk_id)
            if file_id is None or one.file_id not in (None, file_id):
                raise NotFoundError("There is no chunk {id}.", id=one.chunk_id)
        elif one.file_id is None:
            raise InvalidInputError(
                "A target names neither a chunk nor a file.",
                hint="Name the chunk, or the file of which any chunk counts.",
            )
        else:
            file_id = one.file_id
            if file_id not in known:
                raise NotFoundError("There is no file {id}.", id=file_id)
        key = (one.chunk_id, file_id or 0)
        best[key] = max(one.grade, best.get(key, 0))
    return [
        models.GoldenTarget(chunk_id=chunk_id, file_id=file_id, grade=grade)
        for (chunk_id, file_id), grade in best.items()
    ]


def _add(question: models.GoldenQuestion, targets: Sequence[models.GoldenTarget]) -> None:
    for target in targets:
        place: dict[str, Any] = {"chunk_id": target.chunk_id, "file_id": target.file_id}
        question.targets.update_or_create(**place, defaults={"grade": target.grade})


BATCH = 1000
_Place = tuple[int, int | None, int]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, what it expects if anything, and ``facts``: the fields of a new question."""

    query: str
    wanted: Wanted | None
    facts: Mapping[str, Any]


def save_questions(*, store: models.Store, asked: Sequence[Asked]) -> tuple[int, int]:
    """Return how many questions were new and how many were there already and got the targets.

    The first line of a question says its facts, the last one of a passage its grade. What is
    wanted must be the store's: each with its file.
    """
    with transaction.atomic():
        queries = {one.query for one in asked}
        n_known = len(_numbers(store, queries))
        _make(store, asked)
        numbers = _numbers(store, queries)
        _expect(numbers, asked)
    return len(numbers) - n_known, n_known


def _numbers(store: models.Store, queries: Iterable[str]) -> dict[str, int]:
    rows = models.GoldenQuestion.objects.filter(store=store, query__in=queries).order_by()
    return dict(rows.values_list("query", "pk"))


def _make(store: models.Store, asked: Sequence[Asked]) -> None:
    first: dict[str, Asked] = {}
    for one in asked:
        first.setdefault(one.query, one)
    rows = [
        models.GoldenQuestion(store=store, query=query, **one.facts) for query, one in first.items()
    ]
    # What is there, also what somebody else makes at this moment, stays as it is.
    models.GoldenQuestion.objects.bulk_create(rows, batch_size=BATCH, ignore_conflicts=True)


def _expect(numbers: Mapping[str, int], asked: Sequence[Asked]) -> None:
    grades: dict[_Place, int] = {}
    for one in asked:
        if one.wanted is not None and one.wanted.file_id is not None:
            place = (numbers[one.query], one.wanted.chunk_id, one.wanted.file_id)
            grades[place] = one.wanted.grade
    targets = models.GoldenTarget.objects.filter(question__in=numbers.values()).order_by()
    had = {(one.question_id, one.chunk_id, one.file_id): one for one in targets}
    new, other = [], []
    for place, grade in grades.items():
        known = had.get(place)
        if known is None:
            question_id, chunk_id, file_id = place
            new.append(
                models.GoldenTarget(
                    question_id=question_id, chunk_id=chunk_id, file_id=file_id, grade=grade
                )
            )
        elif known.grade != grade:
            known.grade = grade
            other.append(known)
    models.GoldenTarget.objects.bulk_create(new, batch_size=BATCH, ignore_conflicts=True)
    models.GoldenTarget.objects.bulk_update(other, ["grade"], batch_size=BATCH)
