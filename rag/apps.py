"""Django's handle on the rag package."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class RagConfig(AppConfig):
    """Stores, files, chunks and search."""

    name = "rag"
    verbose_name = gettext_lazy("Knowledge base")
