"""Links from a row to the person who did something with it; the row outlives the person."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models


def user_link(verbose_name: Any, **options: Any) -> models.ForeignKey[Any, Any]:
    """Return a foreign key to a user, null when the user is gone; no way leads back by default."""
    defaults = {"verbose_name": verbose_name, "null": True, "related_name": "+"}
    return models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, **{**defaults, **options})
