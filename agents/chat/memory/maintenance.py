"""Memory maintenance: retention, orphaned answers, and embeddings of the configured model."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from agents import models
from agents.chat.memory.embeddings import current_memory_space, embed_memories
from agents.runtime.scopes import readable_chunks
from rag.core.access import Scope

BATCH = 200


def purge_memories(*, older_than_days: float) -> int:
    """Delete memories that nobody touched for so long, 0 for never; return how many went."""
    if older_than_days <= 0:
        return 0
    late = timezone.now() - timedelta(days=older_than_days)
    return models.Memory.objects.filter(updated_at__lt=late).delete()[0]


def purge_orphaned_answers() -> int:
    """Delete the answers that rest on chunks which are no longer there; return how many.

    They are not told to anybody before that either.
    """
    dropped, after = 0, 0
    while True:
        rows = models.Memory.objects.filter(pk__gt=after).exclude(chunk_ids=[]).order_by("pk")
        batch = list(rows.values_list("pk", "chunk_ids")[:BATCH])
        if not batch:
            return dropped
        after = batch[-1][0]
        held = readable_chunks((n for _, ids in batch for n in ids), Scope.operator())
        gone = [pk for pk, ids in batch if not held.issuperset(ids)]
        dropped += models.Memory.objects.filter(pk__in=gone).delete()[0]


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
