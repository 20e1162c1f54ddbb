"""Scripted HTTP server on 127.0.0.1: routes, faults and a record of calls.

Model services are faked by such servers and not by patching: their SDKs run as they are.
"""

from __future__ import annotations

import json
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Call:
    """One request as it came over the wire; header names in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    """What to send. ``events`` are pieces of a chunked stream: bytes to send, seconds to wait,
    or the word "cut" for breaking off; without them ``body`` is sent, as JSON unless bytes."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    events: Iterable[bytes | float | str] | None = None


@dataclass
class Fault:
    """What happens to the next ``times`` requests instead of the route (or before it, when only
    ``delay_s`` is set). ``cut`` is "before" any answer, or in the "middle" of the body;
    ``drip_s`` sends the body a byte at a time. ``on`` lets it wait for requests whose "METHOD
    /path?query" this pattern is found in; the others pass."""

    status: int = 0
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    cut: str = ""
    drip_s: float = 0.0
    times: int = 1
    on: str = ""


Route = Callable[[Call], Reply]


class LoopbackServer:
    """Serves routes on a free port while it is open; ``times`` of faults counts down."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.n_connections = 0
        self.n_active = 0
        self.n_active_most = 0
        self.gone = threading.Event()
        self.closing = threading.Event()
        self._routes: list[tuple[str, re.Pattern[str], Route]] = []
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.owner = self

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def route(self, method: str, pattern: str, answer: Route) -> None:
        """Answer requests whose whole path matches ``pattern``; the first route wins."""
        self._routes.append((method, re.compile(pattern), answer))

    def fail(self, *faults: Fault) -> None:
        """Let these faults befall the next requests, in order."""
        with self._lock:
            self.faults.extend(faults)

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()

    def answer(self, call: Call) -> Reply:
        """Return what the route says; services override it for keys and 404 bodies."""
        for method, pattern, route in self._routes:
            if method == call.method and pattern.fullmatch(call.path):
                return route(call)
        return Reply({"error": {"message": f"no route {call.method} {call.path}"}}, 404)

    def take_fault(self, call: Call) -> Fault | None:
        query = "&".join(f"{name}={value}" for name, value in call.query.items())
        target = f"{call.method} {call.path}?{query}"
        with self._lock:
            fault = next((one for one in self.faults if re.search(one.on, target)), None)
            if fault is None:
                return None
            fault.times -= 1
            if fault.times <= 0:
                self.faults.remove(fault)
            return fault

    def forget_body(self, call: Call) -> None:
        """Record the call without its body, which would fill the memory."""
        with self._lock:
            at = next(at for at, one in enumerate(self.calls) if one is call)
            self.calls[at] = replace(call, body=b"")

    def enter(self, change: int) -> None:
        with self._lock:
            self.n_active += change
            self.n_active_most = max(self.n_active_most, self.n_active)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: LoopbackServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that leave are what many tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Header and body go out apart; with Nagle on, each call would wait 40 ms.
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.owner.n_connections += 1

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the tests' output clean."""

    def handle_any(self) -> None:
        owner = self.server.owner
        parts = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        call = Call(
            self.command,
            parts.path,
            {name: values[-1] for name, values in parse_qs(parts.query).items()},
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(length),
        )
        owner.enter(+1)
        try:
            owner.calls.append(call)
            fault = owner.take_fault(call) or Fault()
            if not self._waited(fault.delay_s) or fault.cut == "before":
                self.close_connection = True
                return
            if fault.status:
                reply = Reply(fault.body, fault.status, fault.headers)
            else:
                reply = owner.answer(call)
            self._send(reply, fault)
        except (BrokenPipeError, ConnectionResetError):
            owner.gone.set()
            self.close_connection = True
        finally:
            owner.enter(-1)

    do_GET = do_POST = do_DELETE = do_PUT = do_PATCH = handle_any

    def _send(self, reply: Reply, fault: Fault) -> None:
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        kind = "application/octet-stream" if isinstance(reply.body, bytes) else "application/json"
        headers = {"Content-Type": kind, **reply.headers}
        if reply.events is None:
            headers.setdefault("Content-Length", str(len(body)))
        else:
            headers["Transfer-Encoding"] = "chunked"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if reply.events is not None:
            self._send_events(reply.events)
        elif fault.cut == "middle":
            self.wfile.write(body[: len(body) // 2])
            self._hang_up()
        elif fault.drip_s:
            for byte in body:
                self.wfile.write(bytes([byte]))
                if not self._waited(fault.drip_s):
                    return
        else:
            self.wfile.write(body)

    def _send_events(self, events: Iterable[bytes | float | str]) -> None:
        for event in events:
            if isinstance(event, str):
                self._hang_up()
                return
            if isinstance(event, bytes):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            elif not self._waited(event):
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")

    def _waited(self, seconds: float) -> bool:
        """Wait, and return False as soon as the client or the server goes away."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.server.owner.closing.is_set():
                return False
            readable, _, _ = select.select([self.connection], [], [], min(left, 0.02))
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                self.server.owner.gone.set()
                return False
        return True

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True
