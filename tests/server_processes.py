"""The product in processes of its own, on the test's database: a web server, a queue worker.

Both stand on the embedder of hashed words, and are forked from a process that has imported most of what they need.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from django.conf import settings
from django.db import connection

from tests.factories import DIM
from tests.forked_processes import ForkedProcess, start_python

# A process finds the tests' folder by CITABLE_VAR; the name of their database it is told.
BEGIN = f"""
import sys, django
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
settings.RAG["EMBEDDING_MODEL"] = "words:{DIM}"
django.setup()
from rag.core.plugins import PLUGINS
from tests.fakes.model_plugins import fake_provider
PLUGINS.add("embedding", fake_provider("words", "tests.fakes.words_embedder.make"))
"""
WORKER = """
from django.core.management import call_command
call_command("procrastinate", "worker")
"""
SERVER = """
import os, uvicorn
lifespan = os.environ.get("SERVER_LIFESPAN", "off")
uvicorn.run("project.asgi:application", port=int(sys.argv[2]), log_level="info", lifespan=lifespan)
"""


@contextmanager
def worker_process(**environment: str) -> Iterator[ForkedProcess]:
    """Run a worker while the block runs."""
    with _process(WORKER, [], environment) as process:
        yield process


@contextmanager
def server_process(log: Path | None = None, **environment: str) -> Iterator[str]:
    """Run a web server and give its address; ``log`` gets all that it prints."""
    with mortal_server(log, **environment) as (url, _):
        yield url


@contextmanager
def mortal_server(
    log: Path | None = None, **environment: str
) -> Iterator[tuple[str, ForkedProcess]]:
    """Run a web server and give its address and the process, for a test that kills it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)
    with _process(SERVER, [str(port)], environment, log) as process:
        url = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                httpx2.get(f"{url}/api/rag/search", timeout=5)
                break
            except httpx2.TransportError:
                assert process.poll() is None, "the server ended"
                time.sleep(0.1)
        yield url, process


@contextmanager
def _process(
    code: str, words: list[str], environment: dict[str, str], log: Path | None = None
) -> Iterator[ForkedProcess]:
    name = str(connection.settings_dict["NAME"])
    output = log.open("wb") if log else subprocess.DEVNULL
    process = start_python(
        "-c",
        BEGIN + code,
        name,
        *words,
        stdout=output,
        stderr=output,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "DATABASE_POOL_SIZE": "4",
            "WORKER_HEARTBEAT": "1",
            "WORKER_SHUTDOWN_TIMEOUT": "1",
            **environment,
        },
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
        if log:
            output.close()  # type: ignore[union-attr]
