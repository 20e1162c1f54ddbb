"""App config of rag: system checks and hooks that are registered when Django starts."""

from __future__ import annotations

import logging

from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.signals import connection_created
from django.db.models.signals import pre_delete
from django.utils.translation import gettext_lazy

from rag.conf import INSTALL_HINT, missing_settings

log = logging.getLogger(__name__)


class RagConfig(AppConfig):
    """Stores, files, chunks and search."""

    name = "rag"
    verbose_name = gettext_lazy("Knowledge base")

    def import_models(self) -> None:
        """Read the models, unless the settings lack what these and the rest cannot do without."""
        if missing := missing_settings():
            raise ImproperlyConfigured(
                f"The settings lack {', '.join(missing)}, which the app “rag” needs. {INSTALL_HINT}"
            )
        super().import_models()

    def ready(self) -> None:
        """Load the plugins and register the checks; what failed is logged and the site lives."""
        # It needs the models, which are complete only now.
        from django.contrib.auth.models import Group

        from rag.services.access import install_actor_wrapper, keep_group

        connection_created.connect(install_actor_wrapper)
        pre_delete.connect(keep_group, sender=Group)
        # These read the settings and the apps, which are complete only now.
        from rag.management import host_checks as host_checks
        from rag.plugins import checks as checks
        from rag.plugins.load import load_plugins

        for failure in load_plugins():
            log.error(
                "The plugins of %s are not there: %s (at %s)",
                failure.module,
                failure.reason,
                failure.where,
            )
