"""Whether a key still lets somebody in. In: a key that did. Out: yes or no."""

from __future__ import annotations

from django.db.models import Q
from django.utils import timezone

from rag import models


def is_live_key(*, key_id: int) -> bool:
    """Return False once a key is revoked, expired or gone, or its user switched off."""
    keys = models.ApiKey.objects.filter(pk=key_id, revoked_at=None, user__is_active=True)
    return keys.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now())).exists()
