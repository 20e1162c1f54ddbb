"""What OpenAI's clients may name as ``model``. In: who asks. Out: agents, embedding models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agents import models
from agents.services.find_agent import find_agent
from rag.core.access import Scope
from rag.core.errors import ConflictError, NotFoundError
from rag.services.embedding_models import embedding_models


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model of the list; ``created`` is a Unix time, 0 where none is known."""

    id: str
    kind: Literal["agent", "embedding"]
    created: int = 0
    label: str = ""


def list_models(*, scope: Scope) -> list[NamedModel]:
    """Return the agents that ``scope`` may ask, by name, and the embedding models it may use."""
    agents = models.Agent.objects.readable(scope).filter(is_enabled=True).order_by("name")
    found = [
        NamedModel(agent.name, "agent", int(agent.created_at.timestamp()), str(agent))
        for agent in agents
    ]
    return found + [NamedModel(name, "embedding") for name in embedding_models(scope=scope)]


def find_model(*, name: str, scope: Scope) -> NamedModel:
    """Return one model of the list; raise NotFoundError."""
    for model in list_models(scope=scope):
        if model.id == name:
            return model
    raise _unknown(name)


def agent_called(*, name: str, scope: Scope) -> models.Agent:
    """Return an agent that can be asked; one that is hidden or switched off is none here."""
    try:
        return find_agent(name=name, scope=scope)
    except (NotFoundError, ConflictError) as error:
        raise _unknown(name) from error


def embedding_model_called(*, name: str, scope: Scope) -> str:
    """Return the name of an embedding model that may be used; raise NotFoundError."""
    if name not in embedding_models(scope=scope):
        raise _unknown(name)
    return name


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(
        "The model “{model}” does not exist, or you may not use it.",
        hint="GET /v1/models lists those that you may.", model=name[:200],
    )  # fmt: skip
