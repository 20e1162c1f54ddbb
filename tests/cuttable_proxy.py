"""TCP proxy before a server, whose connections a test can cut, and which it can close and open."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class CuttableProxy:
    """Passes bytes both ways until it is cut; whoever dials again is put through."""

    def __init__(self, dial: Callable[[], socket.socket]) -> None:
        self._dial, self.port = dial, 0
        self._open: list[socket.socket] = []
        self.open()

    def open(self) -> None:
        """Answer, after ``close`` on the same port again."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._answer, args=[self._listener], daemon=True).start()

    def cut(self) -> None:
        """End every connection at once, as a proxy that falls over does."""
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        """Cut the line; nobody answers on the port any more."""
        with contextlib.suppress(OSError):
            # Closing alone would leave the port to whoever waits in accept.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _answer(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
                far = self._dial()
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
    port = int(url.rpartition(":")[2])
    line = CuttableProxy(lambda: socket.create_connection(("127.0.0.1", port)))
    try:
        yield line, f"http://127.0.0.1:{line.port}"
    finally:
        line.close()
