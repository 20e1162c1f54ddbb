"""Embedding spaces: one (model, dimension, version) with its own vector partition."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class EmbeddingSpace(models.Model):
    """Vectors of one model that may be compared with each other."""

    class State(models.TextChoices):
        """Where a space is in its life."""

        BUILDING = "building", _("building")
        LIVE = "live", _("live")
        RETIRED = "retired", _("retired")

    model = models.CharField(_("model"), max_length=200, help_text=_("provider:model"))
    dim = models.PositiveIntegerField(_("dimension"))
    version = models.CharField(
        _("version"), max_length=200, blank=True, help_text=_("Precision, prefixes and centring.")
    )
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.LIVE)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("embedding space")
        verbose_name_plural = _("embedding spaces")
        constraints = [
            models.UniqueConstraint(fields=["model", "dim", "version"], name="rag_space_unique"),
            models.CheckConstraint(
                condition=models.Q(dim__gte=1, dim__lte=4000), name="rag_space_dim_range"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model} ({self.dim})"
