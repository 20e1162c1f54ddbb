"""ASGI application: Django, the MCP server beside it, and the lifespan events of the process."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import FrameType
from typing import Any

import django
from django.core.signals import request_started
from django.db import close_old_connections, reset_queries

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# One question makes tens of thousands of objects; Python would look for cycles every 700.
gc.set_threshold(20_000, 20, 20)
django.setup(set_prefix=False)

from agents.flows.runs.worker import release_all, release_all_and_wait  # noqa: E402
from project.mcp_app import PATHS, mcp_application  # noqa: E402  models need the line above
from project.request_limits import LimitedASGIHandler  # noqa: E402
from rag.services.wiring.registry import warm_up  # noqa: E402

# A connection goes back to its pool when its request ends; at the beginning there is none to look
# at, and looking changes threads.
request_started.disconnect(close_old_connections)
request_started.disconnect(reset_queries)
django_application = LimitedASGIHandler()


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Serve one scope; Django itself takes only HTTP, so lifespan is accepted here."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["type"] == "http" and scope["path"] in PATHS:
        await mcp_application(scope, receive, send)
    else:
        await django_application(scope, receive, send)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            # Beside the first requests: a server that waits for its model looks dead.
            threading.Thread(target=warm_up, name="warm-up", daemon=True).start()
            _heed_signals()
        else:
            await release_all_and_wait()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _heed_signals() -> None:
    """Leave runs of flows to others at the signal: the server first waits for its streams."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        server = signal.getsignal(number)
        if callable(server):
            signal.signal(number, partial(_leave, server))


def _leave(
    server: Callable[[int, FrameType | None], object], number: int, frame: FrameType | None
) -> None:
    release_all()
    server(number, frame)
