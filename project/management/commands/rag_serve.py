"""``manage.py rag_serve``: the web server and a queue worker together. Out: an exit code."""

from __future__ import annotations

import socket
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, connection

from rag.management import parent_watchdog
from rag.management.rag_command import RagCommand
from rag.management.supervise import supervise

_WATCHDOG = Path(parent_watchdog.__file__)
_CHECK_EVERY_S = 2.0
# Open streams get this long; a worker its own timeout and a little more.
_WEB_GRACE_S = 5
_WORKER_MARGIN_S = 10.0


class Command(RagCommand):
    """Run the web server and a queue worker together."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=int, default=8000, help="port to listen on")

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate, then run both until a signal comes."""
        host, port = options["host"], options["port"]
        _refuse_taken_port(host, port)
        self.stdout.write("Preparing the database")
        call_command("migrate", verbosity=0, interactive=False)
        connection.close()
        # The web server warns about a folder of static files that is not there.
        settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)
        grace_s = settings.PROCRASTINATE_WORKER_DEFAULTS["shutdown_graceful_timeout"]
        watched = [sys.executable, str(_WATCHDOG), str(grace_s + _WORKER_MARGIN_S)]
        commands = {
            "web server": [
                *(*watched, "project.web_server", "--host", host, "--port", str(port)),
                *("--timeout-graceful-shutdown", str(_WEB_GRACE_S)),
            ],
            "queue worker": [*watched, "project.citable", "procrastinate", "worker"],
        }
        shown = f"[{host}]" if ":" in host else host
        self.stdout.write(f"Citable is at http://{shown}:{port}/ (Ctrl+C ends it)")
        self.stdout.flush()
        ended = supervise(
            commands,
            grace_s=grace_s + _WORKER_MARGIN_S,
            tick=_DatabaseCheck(),
        )
        if ended is not None:
            raise CommandError(f"The {ended.name} did not start; it ended with code {ended.code}.")
        self.stdout.write("Stopped")


class _DatabaseCheck:
    """Looks after the embedded server: a query through Django starts one that has died."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _CHECK_EVERY_S

    def __call__(self) -> None:
        if settings.POSTGRES_DATA_DIR is None or time.monotonic() < self._next:
            return
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except OperationalError as error:
            sys.stderr.write(f"The database does not answer: {error}\n")
        finally:
            connection.close()
        self._next = time.monotonic() + _CHECK_EVERY_S


def _refuse_taken_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "ports are 0 to 65535"
            raise CommandError(
                f"Cannot listen on {host}:{port} ({reason}). Choose another with --port."
            ) from error
