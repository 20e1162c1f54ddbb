"""Golden questions and expected targets: create, bulk upsert, resolve to live chunks, rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, NotFoundError
from rag.core.hits import Hit
from rag.services.chunks import find_passages
from rag.services.search import validated_query

MAX_TARGETS = 100
BATCH = 1000
_TargetKey = tuple[int, int | None, int]


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """What a question expects: a chunk, or any chunk of a file; ``grade`` is 1 to 3."""

    chunk_id: int | None = None
    file_id: int | None = None
    grade: int = 1


def save_question(
    *,
    scope: Scope,
    store: models.Store,
    query: str,
    wanted: Sequence[TargetSpec] = (),
    facts: dict[str, Any] | None = None,
) -> tuple[models.GoldenQuestion, bool]:
    """Return the store's question of these words and whether it is new.

    One that is there already gets the targets added to its own; ``facts`` (origin, note, enabled,
    created_by) are of a new one. Raises ForbiddenError, InvalidInputError and NotFoundError, and
    keeps nothing then.
    """
    check_editable(scope=scope, store=store)
    query = validated_query(query=query)
    targets = _resolve_targets(store, wanted)
    with transaction.atomic():
        question, is_new = models.GoldenQuestion.objects.get_or_create(
            store=store, query=query, defaults=facts or {}
        )
        _add_targets(question, targets)
    return question, is_new


def set_targets(
    *, scope: Scope, question: models.GoldenQuestion, wanted: Sequence[TargetSpec]
) -> None:
    """Let a question expect exactly these; raises as ``save_question`` does."""
    check_editable(scope=scope, store=question.store)
    targets = _resolve_targets(question.store, wanted)
    with transaction.atomic():
        question.targets.all().delete()
        _add_targets(question, targets)
        question.save(update_fields=["updated_at"])


def check_editable(*, scope: Scope, store: models.Store) -> None:
    """Raise NotFoundError to who may not read a store, ForbiddenError to who only reads it."""
    stores = models.Store.objects.filter(pk=store.pk)
    if not stores.readable(scope).exists():
        raise NotFoundError("There is no store “{name}”.", name=store.pk)
    store.require_editable(scope)
    store.require_local()


def _resolve_targets(
    store: models.Store, wanted: Sequence[TargetSpec]
) -> list[models.GoldenTarget]:
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


def _add_targets(question: models.GoldenQuestion, targets: Sequence[models.GoldenTarget]) -> None:
    for target in targets:
        target_key: dict[str, Any] = {"chunk_id": target.chunk_id, "file_id": target.file_id}
        question.targets.update_or_create(**target_key, defaults={"grade": target.grade})


@dataclass(frozen=True, slots=True)
class QuestionSpec:
    """A question, what it expects if anything, and ``facts``: the fields of a new question."""

    query: str
    wanted: TargetSpec | None
    facts: Mapping[str, Any]


def save_questions(*, store: models.Store, specs: Sequence[QuestionSpec]) -> tuple[int, int]:
    """Return how many questions were new and how many were there already and got the targets.

    The first line of a question says its facts, the last one of a passage its grade. What is
    wanted must be the store's: each with its file.
    """
    with transaction.atomic():
        queries = {one.query for one in specs}
        n_known = len(_question_ids(store, queries))
        _create_questions(store, specs)
        numbers = _question_ids(store, queries)
        _upsert_targets(numbers, specs)
    return len(numbers) - n_known, n_known


def _question_ids(store: models.Store, queries: Iterable[str]) -> dict[str, int]:
    rows = models.GoldenQuestion.objects.filter(store=store, query__in=queries).order_by()
    return dict(rows.values_list("query", "pk"))


def _create_questions(store: models.Store, specs: Sequence[QuestionSpec]) -> None:
    first: dict[str, QuestionSpec] = {}
    for one in specs:
        first.setdefault(one.query, one)
    rows = [
        models.GoldenQuestion(store=store, query=query, **one.facts) for query, one in first.items()
    ]
    # What is there, also what somebody else makes at this moment, stays as it is.
    models.GoldenQuestion.objects.bulk_create(rows, batch_size=BATCH, ignore_conflicts=True)


def _upsert_targets(numbers: Mapping[str, int], specs: Sequence[QuestionSpec]) -> None:
    grades: dict[_TargetKey, int] = {}
    for one in specs:
        if one.wanted is not None and one.wanted.file_id is not None:
            target_key = (numbers[one.query], one.wanted.chunk_id, one.wanted.file_id)
            grades[target_key] = one.wanted.grade
    targets = models.GoldenTarget.objects.filter(question__in=numbers.values()).order_by()
    had = {(one.question_id, one.chunk_id, one.file_id): one for one in targets}
    new, other = [], []
    for target_key, grade in grades.items():
        known = had.get(target_key)
        if known is None:
            question_id, chunk_id, file_id = target_key
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


@dataclass(frozen=True, slots=True)
class ExpectedTarget:
    """One target: any of ``chunk_ids`` counts, or any chunk of the file where that is None.

    No chunk at all: the file no longer holds the passage.
    """

    target_id: int
    file_id: int
    grade: int
    chunk_ids: frozenset[int] | None

    @property
    def is_lost(self) -> bool:
        """Return whether nothing can be found for it."""
        return self.chunk_ids is not None and not self.chunk_ids


def expected_targets(*, question_ids: Iterable[int]) -> dict[int, list[ExpectedTarget]]:
    """Return what each question expects, the highest grade first; a question without is not there.

    Of a chunk that a newer revision replaced, every chunk counts that holds its passage now. Live
    targets cost one query; each file with replaced ones is read once.
    """
    targets = models.GoldenTarget.objects.filter(question__in=list(question_ids))
    rows = list(
        targets.order_by("question", "-grade", "pk").values_list(
            "pk", "question", "file", "grade", "chunk", "chunk__is_live"
        )
    )
    retired: dict[int, set[int]] = defaultdict(set)
    for _, _, file_id, _, chunk_id, is_live in rows:
        if chunk_id is not None and not is_live:
            retired[file_id].add(chunk_id)
    now: dict[int, frozenset[int]] = {}
    for file_id, chunk_ids in retired.items():
        old = models.Chunk.objects.filter(pk__in=chunk_ids).order_by()
        passages = {pk: (text, at) for pk, text, at in old.values_list("pk", "text", "char_start")}
        now |= find_passages(file_id=file_id, passages=passages)
    found: dict[int, list[ExpectedTarget]] = defaultdict(list)
    for pk, question_id, file_id, grade, chunk_id, is_live in rows:
        chunks: frozenset[int] | None = None
        if chunk_id is not None:
            chunks = frozenset((chunk_id,)) if is_live else now.get(chunk_id, frozenset())
        found[question_id].append(ExpectedTarget(pk, file_id, grade, chunks))
    return dict(found)


def rank_targets(expected: Sequence[ExpectedTarget], hits: Sequence[Hit]) -> list[str]:
    """Return what each hit stands for: the id of a target that it is the first to meet, or itself.

    Named chunks come before files, so that a hit that meets both leaves the file to another.
    """
    left = sorted(expected, key=lambda one: (one.chunk_ids is None, -one.grade))
    places = []
    for hit in hits:
        met = next((one for one in left if _matches(one, hit)), None)
        places.append(f"c{hit.chunk_id}" if met is None else str(met.target_id))
        left = [one for one in left if one is not met]
    return places


def _matches(expected: ExpectedTarget, hit: Hit) -> bool:
    if expected.chunk_ids is None:
        return hit.file_id == expected.file_id
    return not expected.chunk_ids.isdisjoint(hit.chunk_ids)
