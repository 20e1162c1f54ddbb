"""Expected targets of golden questions, resolved to live chunks, and rankings of hits by them.

Of a chunk that a newer revision replaced, every chunk counts that holds its passage now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rag import models
from rag.core.hits import Hit
from rag.services.chunks import find_passages


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

    Live targets cost one query; each file with replaced ones is read once.
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
