"""Memory recall: the asker's own facts and exchanges that bear on a question.

An exchange whose answer rests on chunks that the asker may not read any more, or that are gone, is
left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents import models
from agents.chat.memory.embeddings import current_memory_space, embed_memory_question
from agents.chat.memory.facts import storable_text
from agents.core.recalled_memory import EPISODIC, SEMANTIC, RecalledMemory
from agents.runtime.scopes import readable_chunks
from rag.core.access import Scope
from rag.services.search import calibrated_similarity
from rag.services.wiring import registry as wiring

MAX_FACTS, MAX_EPISODES = 8, 3
# An exchange must be plainly on the subject; a fact about a person may bear on anything.
LIKE_ENOUGH = 0.65
_WIDER = 3


def recall_memories(
    *,
    query: str,
    scope: Scope,
    project: str | None = None,
    kinds: Sequence[str] = (),
    top_k: int | None = None,
) -> list[RecalledMemory]:
    """Return facts, then exchanges, each the likest first, at most ``top_k`` of a kind.

    ``project`` None looks into all of the person's projects. Nothing is returned to somebody
    unknown or who switched memory off. Raises RAGError when the embedding model fails.
    """
    query = storable_text(query).strip()
    rows = models.Memory.objects.readable(scope).defer("embedding")
    rows = rows if project is None else rows.filter(project=storable_text(project))
    if not query or not may_remember(scope) or not rows.exists():
        return []
    vector, space = embed_memory_question(query), current_memory_space()
    found: list[RecalledMemory] = []
    if SEMANTIC in (kinds or (SEMANTIC,)):
        limit = top_k or MAX_FACTS
        facts = rows.filter(kind=SEMANTIC)
        near = list(facts.near(vector, space)[:limit])
        # Those without a vector of this model are still true.
        near += facts.exclude(pk__in=[one.pk for one in near])[: limit - len(near)]
        found += [_told(one) for one in near]
    if EPISODIC in (kinds or (EPISODIC,)):
        limit = top_k or MAX_EPISODES
        near = list(rows.filter(kind=EPISODIC).near(vector, space)[: _WIDER * limit])
        readable = readable_chunks((pk for one in near for pk in one.chunk_ids), scope)
        told = [_told(one) for one in near if readable.issuperset(one.chunk_ids)]
        found += [one for one in told if one.score >= LIKE_ENOUGH][:limit]
    return found


def may_remember(scope: Scope) -> bool:
    """Return whether somebody is known and has not switched memory off."""
    if scope.user_id is None:
        return False
    return not models.MemoryChoice.objects.filter(user_id=scope.user_id, is_on=False).exists()


def _told(row: models.Memory) -> RecalledMemory:
    distance = getattr(row, "distance", None)
    model = wiring.embedder().id
    score = 0.0 if distance is None else calibrated_similarity(model=model, cosine=1.0 - distance)
    return RecalledMemory(
        str(row.key),
        row.kind,
        row.text,
        row.answer,
        max(0.0, min(1.0, score)),
        row.updated_at,
        row.project,
    )
