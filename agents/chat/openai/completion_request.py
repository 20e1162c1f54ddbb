"""Completion request to message request: matches the conversation that the client sends along.

Such clients send all turns each time. A conversation that was held here goes on there; else its
turns are stored as a new session.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from agents import models
from agents.chat.agents.agent import agent_stores
from agents.chat.agents.agent_exposure import agent_exposure
from agents.chat.answers.create import MessageRequest, check_length, create_session
from agents.chat.history.history import branch_turns
from agents.chat.openai.answer import strip_footnotes
from agents.chat.openai.models import model_agent
from agents.core.state import Turn
from agents.runtime.outbound import check_exposure
from rag.core.access import Scope
from rag.core.errors import InvalidInputError

# Agents are shown 50 turns at most; what was before them is not written down again.
MAX_WRITTEN, MAX_SESSIONS, MAX_ALIKE = 50, 100, 10


def find_parent(*, agent: models.Agent, scope: Scope, turns: Sequence[Turn]) -> str:
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
    return strip_footnotes(text=turn["content"])


def _held(agent: models.Agent, scope: Scope, turns: list[Turn]) -> models.Message | None:
    sessions = models.Session.objects.readable(scope).filter(agent_id=agent.pk)
    newest = list(sessions.order_by("-updated_at").values_list("pk", flat=True)[:MAX_SESSIONS])
    alike = models.Message.objects.filter(
        session__in=newest,
        role=turns[-1]["role"],
        content=turns[-1]["content"],
        status=models.Message.Status.DONE,
    )
    for message in alike.select_related("session").order_by("-pk")[:MAX_ALIKE]:
        held = [one.turn for one in branch_turns(message=message)]
        # Less than all must not do: what was before may be another person's with the same key.
        is_long = len(held) >= MAX_WRITTEN
        if held == (turns[-len(held) :] if is_long else list(turns)):
            return message
    return None


def _written(agent: models.Agent, scope: Scope, turns: Sequence[Turn]) -> models.Message:
    with transaction.atomic():
        session = create_session(agent=agent, scope=scope, text=turns[0]["content"])
        last: models.Message | None = None
        for turn in turns:
            last = models.Message.objects.create(session=session, parent=last, **turn)
        session.head = last
        session.save(update_fields=["head", "updated_at"])
    assert last is not None
    return last


MAX_INSTRUCTIONS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """What is asked of an agent: ``turns``, the last of which is the question.

    ``instructions`` are the system messages; None leaves a value as the agent has it. ``parent`` is
    the key of the answer to go on from, in place of turns before the question.
    """

    model: str
    turns: Sequence[Turn]
    instructions: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    stores: Sequence[str] = ()
    parent: str = ""


def message_request(*, asked: CompletionRequest, scope: Scope) -> MessageRequest:
    """Return the order; raise NotFoundError or InvalidInputError before anything is written."""
    agent = model_agent(name=asked.model, scope=scope)
    question = asked.turns[-1]["content"].strip()
    if not question:
        raise InvalidInputError("The message is empty.", hint="Ask something.", param="messages")
    check_length(question, agent)
    check_length(asked.instructions, agent, MAX_INSTRUCTIONS)
    adjusted = _adjusted(agent, asked)
    if len(asked.turns) > 1:
        # Errors come before the turns are written; ``create_answer`` looks only after that.
        agent_stores(agent=agent, scope=scope, names=asked.stores)
        check_exposure(subject=agent, exposure=agent_exposure(agent=agent, scope=scope))
        adjusted.settings  # noqa: B018
    parent = asked.parent or find_parent(agent=agent, scope=scope, turns=asked.turns[:-1])
    return MessageRequest(
        agent=adjusted,
        scope=scope,
        message=question,
        parent=parent,
        stores=asked.stores,
        # What the client adjusted is in no row.
        is_repeatable=False,
    )


def _adjusted(agent: models.Agent, asked: CompletionRequest) -> models.Agent:
    """Return the row as it holds for this one request; it is never saved.

    The agent's own words come first: what a client adds does not take their place.
    """
    agent = copy.copy(agent)
    agent.prompt = "\n\n".join(filter(None, [agent.prompt.strip(), asked.instructions.strip()]))
    if asked.temperature is not None:
        agent.temperature = asked.temperature
    if asked.max_tokens is not None:
        agent.config = {**agent.config, "max_tokens": asked.max_tokens}
    return agent
