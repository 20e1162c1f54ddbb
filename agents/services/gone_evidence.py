"""Words of deleted passages in kept answers. In: what was deleted. Out: answers without them.

Whoever reads an answer is not shown them before that either; here they go from the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Q

from agents import models
from agents.memory.recall import readable_chunks
from agents.services.visible_evidence import chunks_of, visible_evidence
from rag.core.access import Scope

BATCH = 200
_WORDS = ("content", "sources", "citations")


def drop_gone_evidence() -> int:
    """Take what deleted passages said out of the answers that rest on them; return how many.

    The events of such an answer go too: nobody can follow it word by word any more.
    """
    n_changed, after = 0, 0
    ended = models.Message.objects.exclude(status=models.Message.Status.RUNNING)
    resting = ended.exclude(Q(sources=[]) & Q(citations=[])).only(*_WORDS).order_by("pk")
    while batch := list(resting.filter(pk__gt=after)[:BATCH]):
        after = batch[-1].pk
        held = readable_chunks((pk for row in batch for pk in chunks_of(row)), Scope.operator())
        gone = [row for row in batch if not held.issuperset(chunks_of(row))]
        evidence = visible_evidence(messages=gone, scope=Scope.operator())
        with transaction.atomic():
            for row in gone:
                shown = evidence[row.pk]
                row.content = shown.content
                row.sources = [_forgotten(one) for one in shown.sources]
                row.citations = [_forgotten(one) for one in shown.citations]
            models.Message.objects.bulk_update(gone, _WORDS)
            models.MessageEvent.objects.filter(message__in=gone).delete()
        n_changed += len(gone)
    return n_changed


def _forgotten(one: Mapping[str, Any]) -> dict[str, Any]:
    # Without its chunk it is not looked for again.
    return {**one, "chunk_id": None} if one.get("is_gone") else dict(one)
