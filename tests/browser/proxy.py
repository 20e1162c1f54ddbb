"""TCP proxy between browser and server whose connections a test can cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CuttableProxy:
    """Passes bytes both ways until it is cut; whoever dials again is put through."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._answer, daemon=True).start()

    def cut(self) -> None:
        """End every connection at once, as a proxy that falls over does."""
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        """Cut the line for good."""
        self._listener.close()
        self.cut()

    def _answer(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextmanager
def cuttable_proxy(url: str) -> Iterator[tuple[CuttableProxy, str]]:
    """Lend a line to a server, with the address at its other end."""
    line = CuttableProxy(int(url.rpartition(":")[2]))
    try:
        yield line, f"http://127.0.0.1:{line.port}"
    finally:
        line.close()
