"""Memory storage: episodes and facts upserted per subject, edited by the person, kept in order.

The newest word on a subject replaces the older one: the old text is gone and not only hidden.
Vectors are made before any transaction begins; no connection is held while a model works.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents import models
from agents.chat.memory.facts import Episode, Fact, extract_facts, memory_key
from agents.core.recalled_memory import EPISODIC, SEMANTIC
from agents.models.memory import MemoryQuerySet
from agents.runtime.scopes import are_there
from rag.core.access import Scope
from rag.core.errors import ConflictError, ForbiddenError, InvalidInputError, RAGError
from rag.services.threads import release_db
from rag.services.wiring import registry as wiring
from rag.stages.text.normalize import storable_text
from rag.stages.text.secrets import mentions_secret

MAX_KEPT: Mapping[str, int] = {EPISODIC: 1000, SEMANTIC: 200}
# Two facts that are nearer than this say the same in nearly the same words.
SAME_DISTANCE = 0.03
log = logging.getLogger(__name__)


def current_memory_space() -> str:
    """Return what names the vectors that the configured model makes now."""
    embedder = wiring.embedder()
    return f"{embedder.id}|{embedder.dim}|{embedder.version}"[:460]


def embed_memories(texts: list[str]) -> tuple[list[list[float] | None], str]:
    """Return a vector for each text and their space; None and an empty one if the model fails.

    What has no vector yet is not lost: upkeep asks the model again.
    """
    release_db()
    try:
        made = [] if not texts else wiring.embedder().embed_passages(texts).tolist()
    except RAGError as error:
        log.warning("Memories are kept without vectors for now: %s", error)
        return [None] * len(texts), ""
    return list(made), current_memory_space()


def embed_memory_question(query: str) -> list[float]:
    """Return the vector of a question; raise RAGError when the model fails."""
    release_db()
    vector: list[float] = wiring.embedder().embed_query(query).tolist()
    return vector


@dataclass(frozen=True, slots=True)
class MemoryOrigin:
    """Whose memory it is, of which project, and the message that it comes from."""

    scope: Scope
    project: str = ""
    message_id: int | None = None
    session_id: int | None = None
    is_by_hand: bool = False


def own_memories(origin: MemoryOrigin, kind: str) -> MemoryQuerySet:
    """Return what new memories of a kind are merged with."""
    rows = models.Memory.objects.exactly(origin.scope)
    return rows.filter(project=origin.project, kind=kind)


def save_episode(
    origin: MemoryOrigin, episode: Episode, chunk_ids: Sequence[int] = ()
) -> models.Memory | None:
    """Remember an exchange instead of an earlier one with the same question.

    Returns None where the owner has written that one's words: these stay.
    """
    (vector,), space = embed_memories([episode.meaning])
    values = {
        "text": episode.question,
        "answer": episode.answer,
        "chunk_ids": sorted(set(chunk_ids)),
        "embedding": vector,
        "space": space,
    }
    with transaction.atomic():
        if not are_there(chunk_ids):
            # What it rests on was deleted meanwhile.
            return None
        _hold(origin)
        if own_memories(origin, EPISODIC).filter(subject=episode.subject, is_by_hand=True).exists():
            return None
        row = _write(origin, EPISODIC, episode.subject, values)
        _drop_oldest(origin, EPISODIC)
    return row


def save_facts(
    origin: MemoryOrigin, facts: Sequence[Fact], outdated: Sequence[int] = ()
) -> list[models.Memory]:
    """Remember facts instead of earlier ones on the same subjects; delete ``outdated`` rows.

    ``replaces`` of each fact are primary keys here; those of others are never touched.
    """
    vectors, space = embed_memories([fact.text for fact in facts])
    kept = []
    with transaction.atomic():
        _hold(origin)
        mine = own_memories(origin, SEMANTIC)
        mine.filter(pk__in=outdated).delete()
        for fact, vector in zip(facts, vectors, strict=True):
            same = set(fact.replaces)
            if vector is not None:
                near = mine.near(vector, space, SAME_DISTANCE)
                same |= set(near.values_list("pk", flat=True))
            mine.filter(pk__in=same).exclude(subject=fact.subject).delete()
            values = {"text": fact.text, "embedding": vector, "space": space}
            kept.append(_write(origin, SEMANTIC, fact.subject, values))
        _drop_oldest(origin, SEMANTIC)
    return kept


def _hold(origin: MemoryOrigin) -> None:
    """Let two answers to one person be remembered one after the other."""
    person = get_user_model().objects.select_for_update(no_key=True)
    person.filter(pk=origin.scope.user_id or 0).first()


def _write(
    origin: MemoryOrigin, kind: str, subject: str, values: Mapping[str, Any]
) -> models.Memory:
    only, owner = origin.scope.only_store_ids, origin.scope.user_id
    if owner is None:
        raise ForbiddenError("Nothing is remembered of somebody unknown.", hint="Sign in.")
    row, _ = models.Memory.objects.update_or_create(
        user_id=owner,
        project=origin.project,
        kind=kind,
        subject=subject,
        only_store_ids=None if only is None else sorted(only),
        defaults={
            **values,
            "message_id": origin.message_id,
            "session_id": origin.session_id,
            "is_by_hand": origin.is_by_hand,
            "updated_at": timezone.now(),
        },
    )
    return row


def _drop_oldest(origin: MemoryOrigin, kind: str) -> None:
    rows = own_memories(origin, kind).order_by("-updated_at", "-pk")
    old = list(rows.values_list("pk", flat=True)[MAX_KEPT[kind] :])
    if old:
        models.Memory.objects.filter(pk__in=old).delete()


MAX_TEXT, MAX_PROJECT = 2000, 200


def add_fact(*, scope: Scope, text: str, project: str = "") -> models.Memory:
    """Remember what somebody writes down themselves, instead of an earlier fact in these words."""
    checked = _checked(text)
    origin = MemoryOrigin(scope, storable_text(project).strip()[:MAX_PROJECT], is_by_hand=True)
    (row,) = save_facts(origin, [Fact(_subject(checked), checked)])
    return row


def edit_memory(
    *, memory: models.Memory, text: str | None = None, answer: str | None = None
) -> models.Memory:
    """Give a memory other words; it is found by these from then on.

    Raises InvalidInputError for an empty text, ConflictError where the person has a memory with
    this very text already.
    """
    text = memory.text if text is None else _checked(text)
    if memory.kind == SEMANTIC and answer:
        raise InvalidInputError("A fact has no answer.", hint="Change its text.")
    answer = memory.answer if answer is None else storable_text(answer).strip()[:MAX_TEXT]
    _refuse_secret(answer)
    subject = _subject(text, memory.subject) if memory.kind == SEMANTIC else memory_key(text)
    twins = models.Memory.objects.filter(
        user_id=memory.user_id,
        project=memory.project,
        kind=memory.kind,
        subject=subject,
        only_store_ids=memory.only_store_ids,
    ).exclude(pk=memory.pk)
    if twins.exists():
        raise _known_already()
    meaning = f"{text}\n{answer[:300]}".strip() if memory.kind == EPISODIC else text
    (vector,), space = embed_memories([meaning])
    # Words of one's own rest on no passage; what the agent had answered still does.
    kept = memory.chunk_ids if answer == memory.answer else []
    try:
        with transaction.atomic():
            changed = models.Memory.objects.filter(pk=memory.pk).update(
                text=text,
                answer=answer,
                subject=subject,
                embedding=vector,
                space=space,
                is_by_hand=True,
                chunk_ids=kept,
                updated_at=timezone.now(),
            )
    except IntegrityError as error:
        # Remembered while the model made the vector.
        raise _known_already() from error
    if not changed:
        raise ConflictError("The memory was deleted meanwhile.")
    memory.refresh_from_db()
    return memory


def _known_already() -> ConflictError:
    return ConflictError("This is remembered already.", hint="Change or delete the other one.")


def set_memory_choice(*, scope: Scope, is_on: bool) -> bool:
    """Let agents remember somebody or not from now on; what is remembered stays until deleted."""
    if scope.user_id is None:
        raise ForbiddenError("Nothing is remembered of somebody unknown.", hint="Sign in.")
    models.MemoryChoice.objects.update_or_create(user_id=scope.user_id, defaults={"is_on": is_on})
    return is_on


def _subject(text: str, before: str = "") -> str:
    """Return what a fact is about: as rules find it, as before if that is named, else its words."""
    told = extract_facts(text)
    words = memory_key(text)
    if len(told) == 1:
        return told[0].subject
    return before if before and before in words else words


def _checked(text: str) -> str:
    text = storable_text(text).strip()
    if not memory_key(text) or len(text) > MAX_TEXT:
        raise InvalidInputError(
            "A memory has 1 to {limit} characters, with words.",
            hint="Give another.",
            limit=MAX_TEXT,
        )
    _refuse_secret(text)
    return text


def _refuse_secret(text: str) -> None:
    if mentions_secret(text):
        raise InvalidInputError(
            "Passwords, keys and numbers of cards, accounts and papers are not remembered.",
            hint="Leave them out.",
        )


BATCH = 200


def reembed_memories() -> int:
    """Give a batch of memories vectors of the model that is configured now; return how many.

    Those of another model are not compared with anything until then.
    """
    rows = models.Memory.objects.exclude(space=current_memory_space()).order_by("-updated_at")[
        :BATCH
    ]
    batch = list(rows)
    if not batch:
        return 0
    texts = [f"{row.text}\n{row.answer[:300]}".strip() for row in batch]
    vectors, space = embed_memories(texts)
    n_done = 0
    for row, vector in zip(batch, vectors, strict=True):
        if vector is not None:
            # What was changed meanwhile has a vector of its own words.
            same = models.Memory.objects.filter(pk=row.pk, text=row.text, answer=row.answer)
            n_done += same.update(embedding=vector, space=space)
    return n_done
