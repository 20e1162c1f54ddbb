"""RAG nodes of a workflow builder, as their owner last saved and ran them."""

from __future__ import annotations

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from rag.core.access import Scope
from rag.core.rag_node import RAGNodeData
from rag.models.store import Store


class RagNodeQuerySet(models.QuerySet["RagNode"]):
    """Nodes as a caller may see them."""

    def of(self, scope: Scope) -> Self:
        """Return the caller's own nodes, whose store may be read: they hold what it answered.

        Ids are made by clients, so nodes of others may bear the same.
        """
        own = self.filter(Q(owner_id=scope.user_id) & Q(owner__isnull=False))
        return own.filter(Q(store=None) | Q(store__in=Store.objects.readable(scope)))


class RagNode(models.Model):
    """A node's data as JSON on the wire, bound to the store that its files are in."""

    node_id = models.CharField(_("node"), max_length=200)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="rag_nodes", verbose_name=_("owner")
    )
    data = models.JSONField(_("data"), default=dict)
    store = models.ForeignKey(
        Store, models.SET_NULL, null=True, related_name="nodes", verbose_name=_("store")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)

    objects = RagNodeQuerySet.as_manager()

    class Meta:
        verbose_name = _("RAG node")
        verbose_name_plural = _("RAG nodes")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["owner", "node_id"], name="rag_node_once_an_owner")
        ]

    def __str__(self) -> str:
        return self.node_id

    @property
    def node_data(self) -> RAGNodeData:
        """Return the data, typed."""
        return RAGNodeData.from_wire(self.data)
