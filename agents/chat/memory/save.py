"""Memory storage: episodes and facts upserted per subject.

The newest word on a subject replaces the older one: the old text is gone and not only hidden.
Vectors are made before any transaction begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone

from agents import models
from agents.chat.memory.embeddings import embed_memories
from agents.chat.memory.episodic import Episode
from agents.chat.memory.facts import Fact
from agents.core.recalled_memory import EPISODIC, SEMANTIC
from agents.models.memory import MemoryQuerySet
from rag.core.access import Scope
from rag.core.errors import ForbiddenError

MAX_KEPT: Mapping[str, int] = {EPISODIC: 1000, SEMANTIC: 200}
# Two facts that are nearer than this say the same in nearly the same words.
SAME_DISTANCE = 0.03


@dataclass(frozen=True, slots=True)
class MemoryOrigin:
    """Whose memory it is, of which project, and the message that it comes from."""

    scope: Scope
    project: str = ""
    message_id: int | None = None
    session_id: int | None = None
    is_by_hand: bool = False


def project_of(agent: models.Agent | None) -> str:
    """Return what an agent's memories belong to: its own word for it, else its name."""
    return (agent.settings.memory_project.strip() or agent.name)[:200] if agent else ""


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
