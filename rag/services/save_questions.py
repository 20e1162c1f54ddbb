"""Many golden questions at once. In: lines that were checked. Out: how many are new or completed.

As ``save_question`` for each line, in a handful of statements and one commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from rag import models
from rag.services.golden_questions import Wanted

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
