"""The product's web server in a thread of the test, so that models can be scripted in place."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from django.conf import settings

from project.web_server import server_config


@contextmanager
def server_thread(lifespan: str = "off") -> Iterator[str]:
    """Serve ``project.asgi`` on a free port while the block runs, and give its address."""
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)
    config = server_config(log_level="error", lifespan=lifespan, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the server ended"
            time.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)
