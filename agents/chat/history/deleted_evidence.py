"""Words of deleted passages in kept answers. In: what was deleted. Out: answers without them.

Whoever reads an answer is not shown them before that either; here they go from the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Q

from agents import models
from agents.chat.history.evidence import chunks_of, visible_evidence
from agents.runtime.scopes import readable_chunks
from rag.core.access import Scope

BATCH = 200
_WORDS = ("content", "sources", "citations")
_READ = (*_WORDS, "session_id")


def drop_gone_evidence() -> int:
    """Take what deleted passages said out of the answers that rest on them; return how many.

    The events of such an answer go too: nobody can follow it word by word any more.
    """
    n_changed, after = 0, 0
    ended = models.Message.objects.exclude(status=models.Message.Status.RUNNING)
    resting = ended.exclude(Q(sources=[]) & Q(citations=[])).only(*_READ).order_by("pk")
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
            _forget_summaries(gone)
            models.MessageEvent.objects.filter(message__in=gone).delete()
        n_changed += len(gone)
    return n_changed


def _forget_summaries(answers: Sequence[models.Message]) -> None:
    # They may hold the words too, and are made anew from what is left.
    first: dict[int, int] = {}
    for one in answers:
        first[one.session_id] = min(one.pk, first.get(one.session_id, one.pk))
    for session_id, pk in first.items():
        later = models.Message.objects.filter(session_id=session_id, pk__gte=pk)
        later.exclude(summary="").update(summary="")


def _forgotten(one: Mapping[str, Any]) -> dict[str, Any]:
    # Without its chunk it is not looked for again.
    return {**one, "chunk_id": None} if one.get("is_gone") else dict(one)
