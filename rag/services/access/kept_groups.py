"""Groups that restrict files: never deleted, or everybody who sees the store would read them."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.db.models import ProtectedError

from rag import models


def keep_group(*, instance: Group, **_: Any) -> None:
    """Refuse the deletion of a group that restricts a file; a receiver of ``pre_delete``."""
    files = models.File.objects.filter(restricted_to=instance)
    if files.exists():
        raise ProtectedError(f"“{instance}” restricts files: change these first.", {*files[:10]})
