"""Memory editing by the person: add, change, delete, switch memory off."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents import models
from agents.chat.memory.embeddings import embed_memories
from agents.chat.memory.facts import Fact, extract_facts, memory_key, storable_text
from agents.chat.memory.save import MemoryOrigin, save_facts
from agents.core.recalled_memory import EPISODIC, SEMANTIC
from rag.core.access import Scope
from rag.core.errors import ConflictError, ForbiddenError, InvalidInputError

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


def delete_memories(*, memories: QuerySet[models.Memory]) -> int:
    """Delete memories; return how many there were."""
    return memories.delete()[0]


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
    return text
