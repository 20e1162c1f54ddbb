"""Agents, and who may use or change them."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Self

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils.translation import gettext_lazy as _

from agents.core.agent_config import AgentConfig
from rag.core.access import Scope, StoreFacts


class AgentQuerySet(models.QuerySet["Agent"]):
    """Agents as a caller may see them; the rule is ``rag.core.access`` on ``Agent.facts``."""

    def editable(self, scope: Scope) -> Self:
        """Return the agents that ``scope`` may change: owners, editor groups, operators."""
        return self.filter(_editable_by(scope))

    def readable(self, scope: Scope) -> Self:
        """Return the agents that ``scope`` may see and ask.

        A key for some stores may ask them too: what an agent finds is limited by the same key.
        """
        if scope.is_operator:
            return self.all()
        allowed = _owned_by(scope) | Q(is_public=True)
        if scope.group_ids:
            groups = Agent.reader_groups.through.objects.filter(
                agent_id=OuterRef("pk"), group_id__in=scope.group_ids
            )
            allowed |= Q(Exists(groups))
        return self.filter(allowed)


def _editable_by(scope: Scope) -> Q:
    if scope.only_store_ids is not None:
        return Q(pk__in=[])
    return Q() if scope.is_operator else _owned_by(scope)


def _owned_by(scope: Scope) -> Q:
    allowed = Q(owner_id=scope.user_id) if scope.user_id else Q(pk__in=[])
    if not scope.group_ids:
        return allowed
    groups = Agent.editor_groups.through.objects.filter(
        agent_id=OuterRef("pk"), group_id__in=scope.group_ids
    )
    return allowed | Q(Exists(groups))


# What built-in agents are called, in the reader's language while nobody has renamed them.
_SHIPPED = {
    "知识库问答": _("Knowledge base answers"),
    "基于知识库的 RAG 问答，使用内部 Graph 编排实现查询重写、检索、重排序和生成": _(
        "Answers from the knowledge base: rewrites the question, searches, reranks and cites."
    ),
    "知识库多步问答": _("Knowledge base answers in several steps"),
    "基于工具循环的问答：多次检索、评估结果、逐步查找，适合需要比较或综合多份资料的问题": _(
        "Searches several times and weighs what was found; for questions over several documents."
    ),
}


class Agent(models.Model):
    """A configured assistant. What it finds is limited by the rights of who asks it."""

    class Type(models.TextChoices):
        """How an agent works."""

        RAG = "rag", _("retrieval pipeline")
        REACT = "react", _("tools in a loop")
        SUPERVISOR = "supervisor", _("routes to other agents")

    class Role(models.TextChoices):
        """What an agent is to others."""

        SPECIALIST = "specialist", _("specialist")
        COORDINATOR = "coordinator", _("coordinator")
        ASSISTANT = "assistant", _("assistant")

    name = models.SlugField(
        _("name"),
        max_length=64,
        unique=True,
        help_text=_("Letters, digits, _ and -; the name in addresses."),
    )
    display_name = models.CharField(_("display name"), max_length=200, blank=True)
    description = models.TextField(_("description"), blank=True)
    agent_type = models.CharField(_("type"), max_length=12, choices=Type, default=Type.RAG)
    agent_role = models.CharField(_("role"), max_length=12, choices=Role, default=Role.SPECIALIST)
    max_iterations = models.PositiveIntegerField(
        _("max iterations"), default=1, validators=[MinValueValidator(1), MaxValueValidator(50)]
    )
    temperature = models.FloatField(
        _("temperature"), default=0.2, validators=[MinValueValidator(0.0), MaxValueValidator(2.0)]
    )
    is_enabled = models.BooleanField(_("enabled"), default=True)
    is_builtin = models.BooleanField(_("built in"), default=False, editable=False)
    config = models.JSONField(
        _("config"),
        default=dict,
        blank=True,
        help_text=_("Only what differs from the defaults."),
    )
    model = models.CharField(
        _("model"),
        max_length=300,
        blank=True,
        help_text=_("provider:model; empty takes the configured one."),
    )
    prompt = models.TextField(
        _("prompt"), blank=True, help_text=_("Who the agent is and how it speaks.")
    )
    stores = models.ManyToManyField(
        "rag.Store",
        blank=True,
        related_name="agents",
        verbose_name=_("stores"),
        help_text=_("Where it looks; empty: in all stores that who asks may read."),
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="agents",
        verbose_name=_("owner"),
    )
    reader_groups = models.ManyToManyField(
        Group,
        blank=True,
        related_name="readable_agents",
        verbose_name=_("reader groups"),
        help_text=_("Their members may ask the agent."),
    )
    editor_groups = models.ManyToManyField(
        Group,
        blank=True,
        related_name="editable_agents",
        verbose_name=_("editor groups"),
        help_text=_("Their members may change the agent."),
    )
    is_public = models.BooleanField(
        _("public"), default=False, help_text=_("Everybody who may call the API may ask it.")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)

    objects = AgentQuerySet.as_manager()

    class Meta:
        verbose_name = _("agent")
        verbose_name_plural = _("agents")
        ordering = ["name"]

    def __str__(self) -> str:
        shown = self.display_name or self.name
        return str(_SHIPPED.get(shown, shown)) if self.is_builtin else shown

    @property
    def about(self) -> str:
        """Return the description, that of a built-in agent in the reader's language."""
        known = _SHIPPED if self.is_builtin else {}
        return str(known.get(self.description, self.description))

    @property
    def settings(self) -> AgentConfig:
        """Return the config with its defaults; raise InvalidInputError for one that is wrong."""
        # Every answer asks for it several times.
        return _read_config(json.dumps(self.config), self.name)

    @property
    def project(self) -> str:
        """Return what its memories belong to: its own word for it, else its name."""
        return (self.settings.memory_project.strip() or self.name)[:200]

    @property
    def facts(self) -> StoreFacts:
        """Return what decides on access, for one row at hand."""
        return StoreFacts(
            owner_id=self.owner_id,
            # All of them, so that lists can read the groups of many rows at once.
            reader_group_ids=frozenset(group.pk for group in self.reader_groups.all()),
            editor_group_ids=frozenset(group.pk for group in self.editor_groups.all()),
            is_public=self.is_public,
        )


@lru_cache(maxsize=256)
def _read_config(config: str, name: str) -> AgentConfig:
    return AgentConfig.from_dict(json.loads(config), of=name)
