"""What changed chunks leave to be brought up to date. In: a file or store. Out: new counts."""

from __future__ import annotations

from django.db.models import F
from django.utils import timezone

from rag import models
from rag.providers.postgres import stats
from rag.services.weights import settle_store


def note_changes(*, file_id: int, n_more: int = 0) -> None:
    """Say on the file that chunks changed and how many came; whoever weighs texts anew looks."""
    models.File.objects.filter(pk=file_id).update(
        n_chunks=F("n_chunks") + n_more, updated_at=timezone.now()
    )


def settle(*, store_id: int) -> None:
    """Bring a store's statistics up to date, after the commit."""
    stats.roll_up([store_id])
    settle_store(store_id=store_id)
