"""Requests that may be sent again: what came of an ``Idempotency-Key``."""

from __future__ import annotations

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models


class RepeatableRequest(models.Model):
    """A request by its caller's own key; ``result`` is null while it is at work."""

    caller = models.CharField(max_length=40)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    result = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["caller", "key"], name="rag_repeatable_once")
        ]
