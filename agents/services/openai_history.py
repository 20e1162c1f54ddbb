"""The conversation that a client of OpenAI's protocol sends along. In: turns. Out: a message's key.

Such clients keep the conversation and send all of it each time. When it is one that was held here,
it goes on there; else its turns are written down as a new session.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from agents import models
from agents.core.state import Turn
from agents.services.history import branch_of
from agents.services.open_session import open_session
from agents.services.openai_footnotes import without_footnotes
from rag.core.access import Scope

# Agents are shown 50 turns at most; what was before them is not written down again.
MAX_WRITTEN, MAX_SESSIONS, MAX_ALIKE = 50, 100, 10


def parent_of(*, agent: models.Agent, scope: Scope, turns: Sequence[Turn]) -> str:
    """Return the key of the message that a new question comes after; empty without turns."""
    said: list[Turn] = [{"role": turn["role"], "content": _kept(turn)} for turn in turns]
    if not said:
        return ""
    found = _held(agent, scope, said) or _written(agent, scope, said[-MAX_WRITTEN:])
    return str(found.key)


def _kept(turn: Turn) -> str:
    # As questions and answers are written down here.
    if turn["role"] == "user":
        return turn["content"].strip()
    return without_footnotes(text=turn["content"])


def _held(agent: models.Agent, scope: Scope, turns: list[Turn]) -> models.Message | None:
    sessions = models.Session.objects.readable(scope).filter(agent_id=agent.pk)
    newest = list(sessions.order_by("-updated_at").values_list("pk", flat=True)[:MAX_SESSIONS])
    alike = models.Message.objects.filter(
        session__in=newest, role=turns[-1]["role"], content=turns[-1]["content"],
        status=models.Message.Status.DONE,
    )  # fmt: skip
    for message in alike.select_related("session").order_by("-pk")[:MAX_ALIKE]:
        held = [one.turn for one in branch_of(message=message)]
        # Less than all must not do: what was before may be another person's with the same key.
        is_long = len(held) >= MAX_WRITTEN
        if held == (turns[-len(held) :] if is_long else list(turns)):
            return message
    return None


def _written(agent: models.Agent, scope: Scope, turns: Sequence[Turn]) -> models.Message:
    with transaction.atomic():
        session = open_session(agent=agent, scope=scope, text=turns[0]["content"])
        last: models.Message | None = None
        for turn in turns:
            last = models.Message.objects.create(session=session, parent=last, **turn)
        session.head = last
        session.save(update_fields=["head", "updated_at"])
    assert last is not None
    return last
