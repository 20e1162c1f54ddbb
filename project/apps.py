"""App config of the project: starts metrics and tracing in servers and workers."""

from __future__ import annotations

import sys
from pathlib import Path

from django.apps import AppConfig
from django.contrib import admin

from rag.core.request_context import PROGRAMS

SERVERS = frozenset({"web_server", "uvicorn", "gunicorn", "hypercorn", "daphne"})
LONG_COMMANDS = frozenset({"procrastinate", "runserver"})


class TelemetryConfig(AppConfig):
    """Has no models; comes last, when everything else is there."""

    name = "project"

    def ready(self) -> None:
        """Start what such a process tells of itself."""
        # The settings and the models are complete only now.
        from project.telemetry import start_telemetry
        from rag.services.operations import start_metrics

        # Pages of the library's tables, which know neither our theme nor our rules.
        for model in list(admin.site._registry):
            if model.__module__.startswith("allauth."):
                admin.site.unregister(model)
        if is_long_running(sys.argv):
            start_metrics()
            start_telemetry()


def is_long_running(words: list[str]) -> bool:
    """Return whether a process that was started so is a server or a worker."""
    if not words:
        return False
    place = Path(words[0])
    # Modules are started as their files: uvicorn as uvicorn/__main__.py.
    if {place.stem, place.parent.name} & SERVERS:
        return True
    return place.name in PROGRAMS and len(words) > 1 and words[1] in LONG_COMMANDS
