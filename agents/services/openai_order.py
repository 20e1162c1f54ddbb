"""A request of OpenAI's protocol as an order. In: messages, wishes. Out: a ChatOrder."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from agents import models
from agents.core.state import Turn
from agents.services.chat_order import ChatOrder
from agents.services.find_agent import stores_of
from agents.services.openai_history import parent_of
from agents.services.openai_models import agent_called
from agents.services.start_chat import MAX_CHARACTERS
from rag.core.access import Scope
from rag.core.errors import InvalidInputError

MAX_INSTRUCTIONS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of an agent: ``turns``, the last of which is the question.

    ``instructions`` are the system messages; None leaves a value as the agent has it.
    """

    model: str
    turns: Sequence[Turn]
    instructions: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    stores: Sequence[str] = ()


def order_of(*, asked: Asked, scope: Scope) -> ChatOrder:
    """Return the order; raise NotFoundError or InvalidInputError before anything is written."""
    agent = agent_called(name=asked.model, scope=scope)
    question = asked.turns[-1]["content"].strip()
    if not question:
        raise InvalidInputError("The message is empty.", hint="Ask something.", param="messages")
    for text, limit in ((question, MAX_CHARACTERS), (asked.instructions, MAX_INSTRUCTIONS)):
        if len(text) > limit:
            raise InvalidInputError(
                "The message has {n} characters.", hint="Allowed: {limit}.",
                n=len(text), limit=limit, param="messages",
            )  # fmt: skip
    adjusted = _adjusted(agent, asked)
    if len(asked.turns) > 1:
        # What is wrong is told before the turns are written; ``start_chat`` looks only after that.
        stores_of(agent=agent, scope=scope, names=asked.stores)
        adjusted.settings  # noqa: B018
    parent = parent_of(agent=agent, scope=scope, turns=asked.turns[:-1])
    return ChatOrder(
        agent=adjusted, scope=scope, message=question, parent=parent, stores=asked.stores
    )


def _adjusted(agent: models.Agent, asked: Asked) -> models.Agent:
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
