"""Agents benchmark, its server: the product in a process on the scratch database."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

POOL_SIZE = "4"


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run a server process while the block runs and give its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "RAG_CHAT_MODEL": f"scripted:{folder / 'script.yaml'}",
        "DATABASE_POOL_SIZE": POOL_SIZE,
    }
    command = [sys.executable, "-m", "benchmarks.agent_server", str(folder), str(port)]
    server = subprocess.Popen(command, env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                httpx2.get(f"{url}/healthz", timeout=5)
                break
            except httpx2.TransportError:
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(30)


def _serve(folder: Path, port: int) -> None:
    from benchmarks.scratch import join_database  # sets Django up, in the server's process

    join_database()
    import uvicorn

    from benchmarks.search_world import KnownVectors
    from rag.core.plugins import PLUGINS
    from tests.fakes.model_plugins import fake_provider

    KnownVectors.known = pickle.loads((folder / "vectors").read_bytes())
    # What is asked beside the questions has the vector of one of them.
    KnownVectors.other = next(iter(KnownVectors.known.values()))
    PLUGINS.add("embedding", fake_provider("bench", "benchmarks.search_world.make"))
    uvicorn.run("project.asgi:application", port=port, log_level="error", lifespan="off")


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
