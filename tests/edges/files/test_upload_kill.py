"""kill -9 of the web server in the middle of an upload: no half file, and nothing stays behind."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import os
import re
import shutil
import socket
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from project.postgres import server as postgres
from project.postgres.paths import USER, install_dir, socket_dir
from tests.forked_commands import Commands, ForkedCommand

pytestmark = pytest.mark.slow

BASE_DIR = Path(__file__).resolve().parents[3]
MB = 1024 * 1024
SIZE = 24 * MB
BOUNDARY = "----half"
PREPARE = """
from django.contrib.auth import get_user_model
from rag.services.stores.lifecycle import create_store
get_user_model().objects.create_superuser("admin", password="pump and valve")
for name in ("books", "leaflets"):
    print(create_store(name=name, embedding_model="use:multilingual-v3").pk)
"""
SWEEP = """
from rag.services.operations.recovery import remove_orphans
print(remove_orphans(), remove_orphans(older_than_s=0))
"""


class Web:
    """An installation with a web server and no worker."""

    def __init__(self, var: Path) -> None:
        self.var = var
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.env = os.environ | {
            "MEDIA_ROOT": str(self.var / "media"),
            "CITABLE_VAR": str(var),
            "DATABASE_URL": "",
            "LOG_LEVEL": "ERROR",
            "POSTGRES_OPTIONS": "fsync=off,shared_buffers=32MB",
            "RAG_EMBEDDING_MODEL": "use:multilingual-v3",
        }
        self.commands = Commands(self.env, is_warm=True)
        self.process: ForkedCommand | None = None
        self.store = self.books = self.leaflets = 0

    def manage(self, *command: str, stdin: str = "") -> str:
        done = self.commands.run(*command, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def prepare(self) -> None:
        self.manage("migrate", "-v0")
        self.books, self.leaflets = map(int, self.manage("shell", "-v0", stdin=PREPARE).split())

    def start(self) -> None:
        words = ("--port", str(self.port), "--log-level", "error")
        self.process = self.commands.start("-m", "project.web_server", *words)
        deadline = time.monotonic() + 40
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def log_in(self) -> None:
        self.jar = http.cookiejar.CookieJar()
        self.browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))
        address = f"http://127.0.0.1:{self.port}/admin/login/"
        token = self.token(self.browser.open(address, timeout=20).read().decode())
        form = f"csrfmiddlewaretoken={token}&username=admin&password=pump+and+valve&next=/admin/"
        self.browser.open(address, form.encode(), timeout=20)

    @staticmethod
    def token(page: str) -> str:
        found = re.search(r'csrfmiddlewaretoken" value="(\w+)"', page)
        assert found
        return found[1]

    @property
    def path(self) -> str:
        return f"/admin/rag/store/{self.store}/upload/"

    def request(self, content: bytes) -> tuple[dict[str, str], bytes]:
        """Return headers and body of an upload, as the page's script sends it."""
        shown = self.browser.open(f"http://127.0.0.1:{self.port}{self.path}", timeout=20)
        token = self.token(shown.read().decode())
        field = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="csrfmiddlewaretoken"'
        head = f'{field}\r\n\r\n{token}\r\n--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="book.txt"\r\n\r\n'
        body = head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.jar)
        return {
            "Host": f"127.0.0.1:{self.port}",
            "Cookie": cookies,
            "Accept": "application/json",
            "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
            "Content-Length": str(len(body)),
        }, body

    def upload(self, content: bytes) -> list[dict[str, Any]]:
        headers, body = self.request(content)
        address = f"http://127.0.0.1:{self.port}{self.path}"
        asked = urllib.request.Request(address, body, headers)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            results: list[dict[str, Any]] = json.load(answer)["results"]
            return results

    def begin(self, content: bytes, n_sent: int) -> socket.socket:
        """Send the first bytes of an upload and return its open connection."""
        headers, body = self.request(content)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.sendall(f"POST {self.path} HTTP/1.1\r\n{lines}\r\n".encode() + body[:n_sent])
        return connection

    def rows(self, query: str, *values: int) -> list[tuple[Any, ...]]:
        host = str(socket_dir(self.var / "postgres"))
        with psycopg.connect(host=host, user=USER, dbname="citable") as connection:
            return connection.execute(query, values).fetchall()  # type: ignore[call-overload,no-any-return]

    def left(self) -> dict[str, int]:
        """Return the uploads into the store that lie on disk, by folder, with their sizes."""
        media = self.var / "media" / "stores" / str(self.store)
        places = [*(self.var / "incoming").glob("*"), *media.rglob("*")]
        return {
            path.relative_to(self.var).as_posix(): path.stat().st_size
            for path in places
            if path.is_file()
        }


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    folder = Path(tempfile.mkdtemp(prefix="citable-upload-", dir="/tmp"))
    folder.chmod(0o711)
    made = Web(folder)
    try:
        with made.commands:
            made.prepare()
            made.start()
            made.log_in()
            yield made
    finally:
        postgres.stop_postgres(install_dir(), folder / "postgres")
        shutil.rmtree(folder)


def test_an_upload_that_was_cut_leaves_nothing_and_can_be_sent_again(web: Web) -> None:
    web.store = web.books
    content = b"The pump is checked every morning. " * (SIZE // 35)
    # While the bytes come in, and at random moments while what has come is stored.
    for moment in (None, 0.0, 0.01, 0.03, 0.06):
        connection = web.begin(content, 10**9 if moment is not None else SIZE // 2)
        if moment is None:
            time.sleep(0.5)
        else:
            deadline = time.monotonic() + 20
            while not web.left() and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(moment)
        web.kill()
        connection.close()
        # A file is there with all its bytes and its job, or not at all.
        for size, path, n_jobs in web.rows(
            "SELECT size, content, (SELECT count(*) FROM procrastinate_jobs WHERE lock = 'file:' ||"
            " f.id) FROM rag_file f WHERE store_id = %s",
            web.store,
        ):
            assert (web.var / "media" / path).stat().st_size == size == len(content)
            assert n_jobs == 1
        web.start()
        web.log_in()
    wanted = {
        path for (path,) in web.rows("SELECT content FROM rag_file WHERE store_id = %s", web.store)
    }
    orphans = {path for path in web.left() if path.removeprefix("media/") not in wanted}
    assert orphans, "no kill came while bytes lay on disk"
    # Young ones may be uploads that are under way; a day later they are swept.
    assert web.manage("shell", "-v0", stdin=SWEEP).split() == ["0", str(len(orphans))]
    assert {path.removeprefix("media/") for path in web.left()} == wanted
    (result,) = web.upload(content)
    assert result["outcome"] == ("known" if wanted else "taken")
    ((size, status),) = web.rows("SELECT size, status FROM rag_file WHERE store_id = %s", web.store)
    assert (size, status) == (len(content), "processing")


def test_an_answer_that_nobody_waits_for_is_no_half_file_either(web: Web) -> None:
    web.store = web.leaflets
    content = b"Valves are closed before the filter is changed. " * 4000
    connection = web.begin(content, len(content) // 2)
    connection.close()
    (result,) = web.upload(content)
    assert result["outcome"] == "taken"
    assert web.rows("SELECT name, size FROM rag_file WHERE store_id = %s", web.store) == [
        ("book.txt", len(content))
    ]
    deadline = time.monotonic() + 10
    while len(web.left()) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(web.left().values()) == [len(content)]
