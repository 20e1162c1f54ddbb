"""A new conversation. In: an agent, who asks, the first words. Out: its row."""

from __future__ import annotations

from agents import models
from rag.core.access import Scope

MAX_TITLE = 60


def open_session(*, agent: models.Agent, scope: Scope, text: str) -> models.Session:
    """Return a session of ``scope``, seen with the like of its key alone; ``text`` is its title."""
    title, only = " ".join(text.split()), scope.only_store_ids
    return models.Session.objects.create(
        agent_id=agent.pk, user_id=scope.user_id,
        only_store_ids=None if only is None else sorted(only),
        title=title if len(title) <= MAX_TITLE else f"{title[:MAX_TITLE]}…",
    )  # fmt: skip
