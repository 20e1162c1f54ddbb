"""Milvus is fed, anew or no longer. In: a wish. Out: rows in the outbox for whoever drains it."""

from __future__ import annotations

from django.db import transaction

from rag import models
from rag.providers.milvus.collections import fed_spaces
from rag.providers.milvus.feeding import held_chunks
from rag.providers.postgres.connections import release_db
from rag.providers.postgres.feed_rows import feedable_spaces, gone_chunks
from rag.providers.postgres.outbox_switch import (
    note_chunks,
    note_everything,
    outbox_state,
    switch_outbox,
)
from rag.services.search_providers import milvus_server


def start_feeding(*, everything: bool = False) -> int:
    """Let changes be noted from now on, and all chunks if they were not before or ``everything``.

    Searches go on meanwhile. Returns how many rows were noted, among them what Milvus holds and
    Postgres does not. Raises ProviderError.
    """
    if outbox_state().is_on and not everything:
        return 0
    n_lost = _note_lost()
    with transaction.atomic():
        # Waits for the writers under way; those after it are noted by the triggers.
        switch_outbox(True)
    return n_lost + note_everything()


@transaction.atomic
def stop_feeding() -> int:
    """Note no changes any more and forget those that wait; return how many. Milvus is not asked."""
    switch_outbox(False)
    return models.OutboxRow.objects.all().delete()[0]


def _note_lost() -> int:
    n_lost = 0
    server = milvus_server()
    release_db()
    for space_id in sorted(fed_spaces(server)):
        if space_id and space_id not in feedable_spaces():
            continue
        for held in held_chunks(server, space_id):
            gone = gone_chunks(space_id, held)
            note_chunks(space_id, gone)
            release_db()
            n_lost += len(gone)
    return n_lost
