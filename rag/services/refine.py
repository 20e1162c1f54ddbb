"""Found hits made worth reading. In: hits, best first. Out: fewer, none for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import F
from django.db.models.functions import Substr

from rag import models
from rag.core.hits import Hit
from rag.stages.dedupe import drop_duplicates
from rag.stages.diversify import diversify
from rag.stages.merge import merge_neighbours


@dataclass(frozen=True, slots=True)
class Refined:
    """Hits numbered from 1, how many repeated others and how many went into a neighbour."""

    hits: tuple[Hit, ...]
    n_dropped: int
    n_merged: int


def refine(*, hits: Sequence[Hit], top_k: int) -> Refined:
    """Return at most ``top_k``: without duplicates, neighbours merged, of several files."""
    distinct, n_dropped = drop_duplicates(hits)
    merged, n_merged = merge_neighbours(distinct, _canonical)
    return Refined(tuple(diversify(merged, top_k)), n_dropped, n_merged)


def _canonical(file_id: int, start: int, end: int) -> str:
    rows = models.File.objects.filter(pk=file_id).annotate(
        piece=Substr(F("canonical_text"), start + 1, end - start)
    )
    return rows.values_list("piece", flat=True).first() or ""
