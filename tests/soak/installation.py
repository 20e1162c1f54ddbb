"""An installation of its own for the soak: rag_serve with a web server and a worker, on a small disk."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from project.postgres.paths import data_dir

BASE_DIR = Path(__file__).resolve().parents[2]
DISK_MB = 24
_PREPARE = """
import django, sys
django.setup()
from django.contrib.auth import get_user_model
from django.core.management import call_command
call_command("migrate", verbosity=0)
from rag.services.access import create_key
from rag.services.stores import create_store
user = get_user_model().objects.create_superuser("soak", "", "soak")
create_store(name="Soak", slug="soak", owner_id=user.pk)
print(create_key(user=user, name="soak", rights=("read", "write"), requests_per_minute=100000)[1])
"""


@dataclass
class Installation:
    """A running product: its address, key, supervisor, and the folders that it may fill."""

    var: Path
    port: int
    secret: str = ""
    is_small: bool = False
    supervisor: subprocess.Popen[bytes] | None = None
    env: dict[str, str] = field(default_factory=dict)

    @property
    def media(self) -> Path:
        """Where originals lie."""
        return self.var / "media"

    def call(self, method: str, path: str, **more: object) -> httpx2.Response:
        """Return an answer; what is away for a moment raises TransportError."""
        headers = {"authorization": f"Bearer {self.secret}"}
        url = f"http://127.0.0.1:{self.port}{path}"
        return httpx2.request(method, url, headers=headers, timeout=60, **more)  # type: ignore[arg-type]

    def python(self, code: str) -> str:
        """Return what a process of the product's code prints."""
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=BASE_DIR,
            env=self.env,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def start(self) -> None:
        """Start web server and worker, under their supervisor."""
        log = (self.var / "serve.log").open("ab")
        command = [sys.executable, "manage.py", "rag_serve", "--port", str(self.port)]
        self.supervisor = subprocess.Popen(
            command, cwd=BASE_DIR, env=self.env, stdout=log, stderr=log
        )
        self.wait_ready()

    def wait_ready(self, seconds: float = 120) -> None:
        """Return when it serves; raise SystemExit when it does not in time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with suppress(httpx2.TransportError):
                if self.call("GET", "/healthz").status_code == 200:
                    return
            time.sleep(0.3)
        raise SystemExit(f"it does not serve; see {self.var / 'serve.log'}")

    def children(self) -> list[int]:
        """Return the supervisor's programs and what they have started, as they are now."""
        assert self.supervisor is not None
        found, waiting = list[int](), [self.supervisor.pid]
        while waiting:
            path = Path(f"/proc/{waiting.pop()}")
            with suppress(OSError):
                for task in (path / "task").iterdir():
                    pids = [int(pid) for pid in (task / "children").read_text().split()]
                    found += pids
                    waiting += pids
        return found

    def postmaster(self) -> int | None:
        """Return the pid of the embedded server."""
        with suppress(OSError, ValueError):
            pid_file = data_dir(self.var) / "pgdata" / "postmaster.pid"
            return int(pid_file.read_text().splitlines()[0])
        return None

    def stop(self) -> None:
        """End everything that was started."""
        if self.supervisor is not None:
            self.supervisor.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.supervisor.wait(30)
            if self.supervisor.poll() is None:
                self.supervisor.kill()
        subprocess.run(
            [sys.executable, "-m", "project.db", "stop"],
            cwd=BASE_DIR,
            env=self.env,
            capture_output=True,
            check=False,
        )


@contextmanager
def installation(var: Path) -> Iterator[Installation]:
    """Make an installation in ``var``, whose media are on a small disk where one may be mounted."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = Installation(var, port)
    made.env = {
        **os.environ,
        "CITABLE_VAR": str(var),
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "WORKER_STALLED_AFTER": "10",
        "WORKER_HEARTBEAT": "2",
        "DATABASE_POOL_SIZE": "4",
        "RAG_MIN_FREE_DISK_MB": "0",
    }
    made.media.mkdir(parents=True, mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=0700", "tmpfs", str(made.media)]
    can_mount = os.geteuid() == 0 and shutil.which("mount") is not None
    made.is_small = can_mount and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        made.secret = made.python(_PREPARE).splitlines()[-1]
        made.start()
        yield made
    finally:
        made.stop()
        if made.is_small:
            subprocess.run(["umount", "-l", str(made.media)], capture_output=True, check=False)
