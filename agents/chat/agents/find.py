"""Agent look-up by name, and the stores that an agent searches, by access scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents import models
from rag.core.access import Scope
from rag.core.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from rag.services.stores import find_stores, readable_stores

MAX_STORES = 50
SEARCH = "vector_retrieve"


def find_agent(*, name: str, scope: Scope) -> models.Agent:
    """Return an agent that ``scope`` may ask; NotFoundError alike for none and a hidden one."""
    # No agent has such a name, and Postgres takes no NUL.
    found = models.Agent.objects.readable(scope).filter(name=name.replace("\0", "\ufffd")).first()
    if found is None:
        raise NotFoundError("There is no agent “{name}”.", name=name)
    if not found.is_enabled:
        raise ConflictError(
            "The agent “{name}” is switched off.", hint="Switch it on, or ask another.", name=name
        )
    return found


def agent_stores(*, agent: models.Agent, scope: Scope, names: Sequence[str] = ()) -> list[Any]:
    """Return the stores where the agent looks for ``scope``: never more than these may be read.

    ``names`` choose among the agent's own stores, or among all where it has none. Without names it
    is the agent's own, else the first 50 that may be read. Stores kept at Gemini are left out.
    Only an agent that searches stores itself must have one.
    """
    own = set(agent.stores.values_list("pk", flat=True))
    if names:
        found = find_stores(names=list(names), scope=scope)
        for store in found:
            if own and store.pk not in own:
                raise ForbiddenError(
                    "The agent “{agent}” does not look into the store “{name}”.",
                    hint="Leave out stores, or ask another agent.",
                    agent=agent.name,
                    name=store.slug,
                )
            store.require_local()
        return found
    found = readable_stores(scope=scope, ids=own or None, limit=MAX_STORES)
    if not found and _searches(agent):
        raise InvalidInputError(
            "There is no store that the agent “{name}” could search for you.",
            hint="Ask for the right to read one.",
            name=agent.name,
        )
    return found


def _searches(agent: models.Agent) -> bool:
    if agent.agent_type == models.Agent.Type.REACT:
        return SEARCH in agent.settings.tools
    return agent.agent_type != models.Agent.Type.SUPERVISOR
