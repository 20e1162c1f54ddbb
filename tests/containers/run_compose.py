"""compose.yaml run with podman: ``python -m tests.containers.run_compose``, ``make containers``.

Two web and two worker containers, PostgreSQL with pgvector, Valkey and nginx of the file itself; what it
names of a registry is replaced by images of Debian's packages. People upload, search, ask, stream and
sign in through the proxy, while one of each and the database are killed. Skipped, with the reason, where it
cannot run.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import yaml

from tests.containers.base_images import NGINX, POSTGRES, VALKEY, build_image, make_base_images, run

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("podman", "buildah", "debootstrap", "runc", "iptables", "podman-compose")
FREE_GB, PORT, PROJECT, IMAGE = 8, 18080, "citabletest", "localhost/citable-test-product"
# A network of its own; its first address is where podman answers for names.
SUBNET, NAMES = "10.89.77.0/24", "10.89.77.1"
PODMAN = ("--podman-args=--runtime=runc", f"--project-name={PROJECT}", "--in-pod=false")
LIMITS = "--podman-run-args=--ulimit nofile=4096:4096 --ulimit nproc=4096:4096"
TEXT = b"The harbour crane is inspected every second Tuesday by two people."
QUESTION = "How often is the harbour crane inspected?"


def reason_to_skip() -> str:
    """Return why it cannot run here, empty where it can."""
    if missing := [name for name in TOOLS if shutil.which(name) is None]:
        return f"{', '.join(missing)} missing (apt-get install; podman-compose by pip)"
    if os.geteuid():
        return "it needs the superuser, for base images and a network"
    if (free := shutil.disk_usage("/var").free // 10**9) < FREE_GB:
        return f"{free} GB free, {FREE_GB} are needed"
    return ""


def compose_file() -> dict[str, Any]:
    """Return compose.yaml with our images, a network whose name server is known, and one health check less."""
    composed: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    ours = {"db": POSTGRES, "proxy": NGINX, "redis": VALKEY}
    for name, service in composed["services"].items():
        service["image"] = ours.get(name, IMAGE)
        # Built and waited for by this script: this podman knows no healthy neighbours.
        for key in ("build", "env_file", "depends_on", "profiles"):
            service.pop(key, None)
        if name in ("web", "worker"):
            # As docker compose up --scale web=2 --scale worker=2.
            service["scale"] = 2
    composed["networks"] = {"default": {"ipam": {"config": [{"subnet": SUBNET}]}}}
    return composed


@dataclass
class Stack:
    """The running containers."""

    folder: Path
    secret: str = ""

    def compose(self, *words: str) -> str:
        """Run podman-compose on our file."""
        file = str(self.folder / "compose.yaml")
        environment = {
            **os.environ,
            "POSTGRES_PASSWORD": "harbour1",
            "CITABLE_LISTEN": f"127.0.0.1:{PORT}",
        }
        command = ("podman-compose", "-f", file, *PODMAN, LIMITS, *words)
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=900, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(words)} failed:\n{(done.stdout + done.stderr)[-3000:]}")
        return done.stdout

    def call(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """Return an answer that came through the proxy."""
        headers = {"authorization": f"Bearer {self.secret}"} if self.secret else {}
        url = f"http://127.0.0.1:{PORT}{path}"
        return httpx2.request(method, url, headers=headers, timeout=60, **more)

    def manage(self, *words: str) -> str:
        """Run a command of the product in a web container."""
        return run("podman", "exec", self.names("web")[0], "python", "manage.py", *words).strip()

    def names(self, service: str) -> list[str]:
        """Return the running containers of a service."""
        told = run("podman", "ps", "--format={{.Names}}", f"--filter=name={PROJECT}_{service}_")
        return sorted(told.split())

    def is_found(self, word: str) -> bool:
        """Return whether a search finds a word."""
        body = {"query": word, "stores": ["crane"]}
        answer = self.call("POST", "/api/rag/retrieve", json=body)
        return answer.status_code == 200 and any(
            word in hit["content"] for hit in answer.json()["hits"]
        )

    def upload(self, name: str, content: bytes) -> None:
        """Upload a document, which a worker then reads."""
        files = [("files", (name, content))]
        answer = self.call("POST", "/api/files", data={"store": "crane"}, files=files)
        assert answer.status_code == 201, answer.text


def until(what: str, ask: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until something holds, and say how long it took."""
    started = time.monotonic()
    while time.monotonic() < started + seconds:
        with contextlib.suppress(httpx2.TransportError, OSError):
            if ask():
                sys.stdout.write(f"{what}: {time.monotonic() - started:.1f} s\n")
                return
        time.sleep(0.5)
    raise SystemExit(f"{what}: not within {seconds} s")


@contextmanager
def running_stack(folder: Path) -> Iterator[Stack]:
    """Build the images and start everything; what was started is removed at the end."""
    make_base_images(folder)
    build_image(ROOT, IMAGE)
    nginx = (ROOT / "docs/deploy/nginx.conf").read_text(encoding="utf-8")
    (folder / "nginx.conf").write_text(nginx.replace("127.0.0.11", NAMES), encoding="utf-8")
    composed = compose_file()
    composed["services"]["proxy"]["volumes"] = [f"{folder}/nginx.conf:/etc/nginx/nginx.conf:ro"]
    for name in ("migrate", "web", "worker"):
        composed["services"][name]["environment"]["REDIS_URL"] = "redis://redis:6379/0"
    (folder / "compose.yaml").write_text(yaml.safe_dump(composed), encoding="utf-8")
    stack = Stack(folder)
    try:
        stack.compose("up", "-d", "db", "redis")
        database = stack.names("db")[0]
        check = composed["services"]["db"]["healthcheck"]["test"][1:]
        ready = ["podman", "exec", database, *check]
        until("database", lambda: not subprocess.run(ready, capture_output=True).returncode)
        stack.compose("run", "--rm", "-T", "migrate")
        stack.compose("up", "-d", "web", "worker", "proxy")
        until("two web and two worker containers", lambda: is_up(stack))
        yield stack
    finally:
        with contextlib.suppress(SystemExit):
            stack.compose("down", "-v", "-t", "5")


def is_up(stack: Stack) -> bool:
    """Return whether the site is ready and there are two of each."""
    counts = [len(stack.names(name)) for name in ("web", "worker")]
    return counts == [2, 2] and stack.call("GET", "/readyz").status_code == 200


def check_image(stack: Stack) -> None:
    """The image runs as nobody special, and its own health check says that it is well."""
    for name in stack.names("web") + stack.names("worker"):
        assert run("podman", "exec", name, "id", "-u").strip() == "10001"
    for name in stack.names("web"):
        run("podman", "healthcheck", "run", name)
    (told,) = json.loads(run("podman", "image", "inspect", IMAGE))
    assert told["User"] == "citable" and told["Healthcheck"]["Test"], told


def check_people(stack: Stack) -> None:
    """Somebody signs in, uploads, searches, asks and follows a stream, through the proxy."""
    password = secrets.token_urlsafe(12)
    code = (
        "from django.contrib.auth import get_user_model as g;"
        f"u = g().objects.create_superuser('harbour', '', '{password}');"
        "from rag.services.stores import create_store;"
        "create_store(name='Crane', slug='crane', owner_id=u.pk)"
    )
    stack.manage("shell", "-c", code)
    stack.secret = stack.manage("rag_key", "harbour", "--user", "harbour", "--write").split()[-1]
    stack.upload("crane.txt", TEXT)
    until("an upload is found", lambda: stack.is_found("crane"))
    answer = stack.call("POST", "/api/rag/ask", json={"query": QUESTION, "stores": ["crane"]})
    assert answer.status_code == 200 and answer.json()["citations"], answer.text
    body = {"message": QUESTION, "stores": ["crane"], "stream": True}
    streamed = stack.call("POST", "/api/agents/rag/chat", json=body)
    assert "event: done" in streamed.text, streamed.text[-500:]
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accepted = {"accept": "application/json, text/event-stream"}
    with httpx2.Client(headers={**accepted, "authorization": f"Bearer {stack.secret}"}) as client:
        tools = client.post(f"http://127.0.0.1:{PORT}/mcp", json=rpc, timeout=60)
    assert '"search"' in tools.text, tools.text[:500]
    with httpx2.Client(base_url=f"http://127.0.0.1:{PORT}", follow_redirects=True) as browser:
        page = browser.get("/admin/login/")
        (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)[:1]
        form = {"username": "harbour", "password": password, "csrfmiddlewaretoken": token}
        inside = browser.post(
            "/admin/login/?next=/admin/", data=form, headers={"referer": str(page.url)}
        )
    assert inside.status_code == 200 and "logout" in inside.text
    sys.stdout.write(
        "people: signed in, uploaded, searched, asked, followed a stream, listed tools\n"
    )


def check_kills(stack: Stack) -> None:
    """One of each is killed and nobody notices; while the database is away they are told so."""
    run("podman", "kill", stack.names("web")[0])
    refused = sum(stack.call("GET", "/api/stores").status_code != 200 for _ in range(20))
    assert refused == 0, f"{refused} of 20 requests failed beside a killed web process"
    run("podman", "kill", stack.names("worker")[0])
    stack.upload("second.txt", b"The second lighthouse keeper is called at dawn.")
    until("an upload is found with one worker killed", lambda: stack.is_found("lighthouse"))
    database = stack.names("db")[0]
    run("podman", "kill", database)
    away = stack.call("GET", "/api/stores")
    assert (away.status_code, away.headers["retry-after"]) == (503, "5"), away.text
    run("podman", "start", database)
    until("a killed database is found again", lambda: stack.is_found("lighthouse"))


def main() -> None:
    """Build, start and try everything; print how long each took."""
    if why := reason_to_skip():
        sys.stdout.write(f"skipped: {why}\n")
        return
    with socket.socket() as probe:
        if not probe.connect_ex(("127.0.0.1", PORT)):
            raise SystemExit(f"port {PORT} is taken")
    with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder)) as stack:
        for check in (check_image, check_people, check_kills):
            check(stack)
    sys.stdout.write("all held\n")


if __name__ == "__main__":
    main()
