"""What models were asked to do, in tokens: the ground of bills and limits."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from rag.models.store import Store


class UsageRecord(models.Model):
    """One call of a model; tokens are None where it did not count."""

    class Kind(models.TextChoices):
        """What the call was for."""

        FILE_SEARCH = "fileSearch", _("question to a store")
        MULTIMODAL = "multimodal", _("question to files")

    kind = models.CharField(_("kind"), max_length=20, choices=Kind)
    provider = models.CharField(_("provider"), max_length=40)
    model = models.CharField(_("model"), max_length=200)
    input_tokens = models.PositiveIntegerField(_("input tokens"), null=True)
    output_tokens = models.PositiveIntegerField(_("output tokens"), null=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+",
        verbose_name=_("user"), db_index=False,
    )  # fmt: skip
    store = models.ForeignKey(
        Store, models.SET_NULL, null=True, related_name="+", verbose_name=_("store"), db_index=False
    )
    created_at = models.DateTimeField(_("asked"), auto_now_add=True, db_index=True)

    class Meta:
        verbose_name = _("use of a model")
        verbose_name_plural = _("use of models")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"
