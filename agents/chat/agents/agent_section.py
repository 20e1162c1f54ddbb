"""Section of agents in a configuration kept as files, and conversations as it writes them."""

from __future__ import annotations

from typing import Any

from agents import models
from agents.chat.agents.save import delete_agent, save_agent
from rag.core.access import Scope
from rag.core.errors import ConflictError
from rag.services.configuration import (
    ConfigItem,
    ConfigSection,
    group_names,
    named_groups,
    named_owner,
    register_section,
)

_FIELDS = (
    "display_name",
    "description",
    "agent_type",
    "agent_role",
    "max_iterations",
    "temperature",
    "is_enabled",
    "config",
    "model",
    "prompt",
    "is_public",
)
_GROUPS = ("reader_groups", "editor_groups")


class AgentItem(ConfigItem):
    """The keys of an agent; its name is that of the file."""

    display_name: str = ""
    description: str = ""
    agent_type: str = "rag"
    agent_role: str = "specialist"
    max_iterations: int = 1
    temperature: float = 0.7
    is_enabled: bool = True
    config: dict[str, Any] = {}
    model: str = ""
    prompt: str = ""
    stores: list[str] = []
    owner: str | None = None
    reader_groups: list[str] = []
    editor_groups: list[str] = []
    is_public: bool = False


def _describe(scope: Scope) -> dict[str, dict[str, Any]]:
    rows = models.Agent.objects.editable(scope).select_related("owner")
    return {
        agent.name: {
            **{name: getattr(agent, name) for name in _FIELDS},
            "stores": sorted(store.slug for store in agent.stores.all()),
            "owner": agent.owner.get_username() if agent.owner else None,
            **{name: group_names(getattr(agent, name)) for name in _GROUPS},
        }
        for agent in rows.prefetch_related("stores", *_GROUPS).order_by("name")
    }


def _put(scope: Scope, name: str, values: dict[str, Any], prunes: bool) -> None:
    given = dict(values)
    given |= {one: named_groups(given[one], scope) for one in _GROUPS if one in given}
    stores = given.pop("stores", None)
    agent = models.Agent.objects.filter(name=name).first()
    if agent is not None and not models.Agent.objects.editable(scope).filter(pk=agent.pk).exists():
        raise ConflictError.name_taken(name)
    owner = named_owner(given.pop("owner"), scope) if "owner" in given else None
    row = save_agent(scope=scope, values={"name": name, **given}, agent=agent, stores=stores)
    row.full_clean(exclude=["name"], validate_unique=False)
    if "owner" in values or agent is None:
        owner_id = owner.pk if owner else None if "owner" in values else scope.user_id
        models.Agent.objects.filter(pk=row.pk).update(owner_id=owner_id)


def _drop(scope: Scope, name: str) -> None:
    agent = models.Agent.objects.editable(scope).get(name=name)
    # The built-in ones come with the product; they are switched off, never deleted.
    if not agent.is_builtin:
        delete_agent(agent=agent, scope=scope)


class ConversationItem(ConfigItem):
    """A conversation as it is written; none is read."""


def _describe_conversations(scope: Scope) -> dict[str, dict[str, Any]]:
    every = models.Session.objects.all()
    own = every if scope.is_operator else models.Session.objects.readable(scope)
    rows = own.filter(user__isnull=False).select_related("agent", "user").order_by("pk")
    return {
        str(session.key): {
            "title": session.title,
            "agent": session.agent.name if session.agent else None,
            "user": session.user.get_username() if session.user else None,
            "created_at": session.created_at.isoformat(),
            "messages": [_message(one) for one in session.messages.order_by("pk")],
        }
        for session in rows
    }


def _message(message: models.Message) -> dict[str, Any]:
    cited = [
        {name: one.get(name) for name in ("file_name", "page", "quote", "verdict")}
        for one in message.citations
    ]
    told = {
        "role": message.role,
        "content": message.content,
        "citations": cited,
        "feedback": message.get_feedback_display() if message.feedback else None,
        "comment": message.feedback_comment,
    }
    return {name: value for name, value in told.items() if value}


def register_agent_sections() -> None:
    """Let agents be applied, supervisors after those that they ask, and conversations written."""
    register_section(
        ConfigSection(
            "agents",
            AgentItem,
            "agents.{}_agent",
            _describe,
            _put,
            _drop,
            lambda values: values.get("agent_type") == models.Agent.Type.SUPERVISOR,
        )
    )
    register_section(ConfigSection("conversations", ConversationItem, "", _describe_conversations))
