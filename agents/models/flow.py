"""Flows, their versions, and who may run or change them."""

from __future__ import annotations

from typing import Self

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils.translation import gettext_lazy as _

from rag.core.access import Scope, StoreFacts


class FlowQuerySet(models.QuerySet["Flow"]):
    """Flows as a caller may see them; the rule is ``rag.core.access`` on ``Flow.facts``."""

    def editable(self, scope: Scope) -> Self:
        """Return the flows that ``scope`` may change: owners, editor groups, operators."""
        return self.filter(_editable_by(scope))

    def runnable(self, scope: Scope) -> Self:
        """Return the flows that ``scope`` may see and run."""
        if scope.is_operator or scope.only_store_ids is not None:
            return self.filter(_editable_by(scope))
        groups = Flow.runner_groups.through.objects.filter(
            flow_id=OuterRef("pk"), group_id__in=scope.group_ids
        )
        return self.filter(_editable_by(scope) | Q(is_public=True) | Q(Exists(groups)))


def _editable_by(scope: Scope) -> Q:
    if scope.only_store_ids is not None:
        # A flow may ask databases and APIs too: a key for some stores opens none.
        return Q(pk__in=[])
    if scope.is_operator:
        return Q()
    groups = Flow.editor_groups.through.objects.filter(
        flow_id=OuterRef("pk"), group_id__in=scope.group_ids
    )
    allowed = Q(Exists(groups))
    return allowed | Q(owner_id=scope.user_id) if scope.user_id else allowed


class Flow(models.Model):
    """A named flow; what runs is its active version."""

    name = models.CharField(
        _("name"),
        max_length=64,
        unique=True,
        help_text=_("Letters, digits, _ and -; the name in addresses and in its YAML."),
    )
    title = models.CharField(_("title"), max_length=200, blank=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="flows",
        verbose_name=_("owner"),
    )
    runner_groups = models.ManyToManyField(
        Group,
        blank=True,
        related_name="runnable_flows",
        verbose_name=_("runner groups"),
        help_text=_("Their members may run the flow."),
    )
    editor_groups = models.ManyToManyField(
        Group,
        blank=True,
        related_name="editable_flows",
        verbose_name=_("editor groups"),
        help_text=_("Their members may change the flow and decide its reviews."),
    )
    is_public = models.BooleanField(
        _("public"), default=False, help_text=_("Everybody may run it, without signing in.")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)

    objects = FlowQuerySet.as_manager()

    class Meta:
        verbose_name = _("flow")
        verbose_name_plural = _("flows")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.title or self.name

    @property
    def facts(self) -> StoreFacts:
        """Return what decides on access, for one row at hand; runners are its readers."""
        return StoreFacts(
            owner_id=self.owner_id,
            # All of them, so that lists can read the groups of many rows at once.
            reader_group_ids=frozenset(group.pk for group in self.runner_groups.all()),
            editor_group_ids=frozenset(group.pk for group in self.editor_groups.all()),
            is_public=self.is_public,
        )


class FlowVersion(models.Model):
    """One state of a flow's YAML and prompts; never changed once it is there."""

    flow = models.ForeignKey(Flow, models.CASCADE, related_name="versions", verbose_name=_("flow"))
    number = models.PositiveIntegerField(_("number"))
    yaml = models.TextField("YAML")
    prompts = models.JSONField(_("prompts"), default=dict, blank=True)
    digest = models.CharField(max_length=64, editable=False)
    note = models.CharField(_("note"), max_length=200, blank=True)
    is_active = models.BooleanField(_("active"), default=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("made by"),
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("flow version")
        verbose_name_plural = _("flow versions")
        ordering = ["flow", "-number"]
        constraints = [
            models.UniqueConstraint(fields=["flow", "number"], name="agents_version_number"),
            models.UniqueConstraint(
                fields=["flow"], condition=Q(is_active=True), name="agents_one_active_version"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.flow.name} {self.number}"
