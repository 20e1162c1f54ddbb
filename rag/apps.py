"""App config of rag: system checks and hooks that are registered when Django starts."""

from __future__ import annotations

import logging

from django.apps import AppConfig
from django.db.backends.signals import connection_created
from django.utils.translation import gettext_lazy

log = logging.getLogger(__name__)


class RagConfig(AppConfig):
    """Stores, files, chunks and search."""

    name = "rag"
    verbose_name = gettext_lazy("Knowledge base")

    def ready(self) -> None:
        """Load the plugins and register the checks; what failed is logged and the site lives."""
        # It needs the models, which are complete only now.
        from rag.services.access import install_actor_wrapper

        connection_created.connect(install_actor_wrapper)
        # Both read the settings and the apps, which are complete only now.
        from rag.plugins import checks as checks
        from rag.plugins.load import load_plugins

        for failure in load_plugins():
            log.error(
                "The plugins of %s are not there: %s (at %s)",
                failure.module,
                failure.reason,
                failure.where,
            )
