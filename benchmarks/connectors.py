"""Connectors benchmark: the second sync of a website and of a folder where nothing changed.

The website answers in a process of its own; pages of the first sync are filed, not indexed, so that
what a second sync asks of an embedder would be seen in the queue.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

N_DOCUMENTS = 10_000
FAN = 20
_TEXT = (
    "<html><head><title>Model {n}</title></head><body><nav><a href='/'>Home</a></nav><main>"
    "<h1>Model {n}</h1><p>Model {n} runs at {a} bar and needs {b} watts in normal use.</p>"
    "<p>{ways}</p></main><footer>All rights reserved</footer></body></html>"
)


class _Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    n_pages = N_DOCUMENTS

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer with a page, conditionally."""
        number = self.path.removeprefix("/")
        n = int(number or 0) if number.isdigit() or not number else self.n_pages
        body = b"" if n >= self.n_pages else _page(n, self.n_pages)
        etag = f'"{md5(body).hexdigest()}"'
        is_known = bool(body) and self.headers.get("If-None-Match") == etag
        sent = b"" if is_known else body
        self.send_response(304 if is_known else 200 if body else 404)
        self.send_header("ETag", etag)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


class _Server(ThreadingHTTPServer):
    # Of eight connections at once the default of five would let some wait a second for their turn.
    request_queue_size = 128


def _page(n: int, n_pages: int) -> bytes:
    first = n * FAN + 1
    ways = " ".join(f"<a href='/{m}'>{m}</a>" for m in range(first, min(first + FAN, n_pages)))
    return _TEXT.format(n=n, a=n % 113, b=n % 97, ways=ways).encode()


def _serve(n_pages: int) -> None:
    _Site.n_pages = n_pages
    server = _Server(("127.0.0.1", 0), _Site)
    print(server.server_port, flush=True)
    server.serve_forever()


@contextmanager
def _website(n_pages: int) -> Iterator[str]:
    words = [sys.executable, "-m", "benchmarks.connectors", "--serve", str(n_pages)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/"
        finally:
            process.kill()


def _measure(n_documents: int) -> None:
    # Django's settings come with it, which the website's process does without.
    from benchmarks.record import Report
    from benchmarks.scratch import scratch_database

    report = Report("connectors")
    with scratch_database(), _website(n_documents) as site, tempfile.TemporaryDirectory() as folder:
        for n in range(n_documents):
            Path(folder, f"{n}.txt").write_text(f"Model {n} needs {n % 97} watts.")
        for name, connector, options in (
            ("website", "web", {"start": site, "parallel": 8}),
            ("folder", "folder", {"folder": folder}),
        ):
            _sync_twice(report, name, connector, options, n_documents)
    report.save()


def _sync_twice(
    report: Any, name: str, connector: str, options: dict[str, Any], n_documents: int
) -> None:
    # As above.
    from django.conf import settings
    from django.test import override_settings

    from rag import models
    from rag.core.access import Scope
    from rag.providers.procrastinate_queue import Job
    from rag.services.connectors import run_sync, save_connection, start_sync
    from rag.services.stores import create_store

    scope = Scope.operator()
    store = create_store(name=name, slug=name)
    connection = models.Connection(
        store=store, name=name, connector=connector, options=options, max_documents=n_documents
    )
    save_connection(scope=scope, connection=connection)
    with override_settings(RAG=settings.RAG | {"FETCH_HOSTS": ("127.0.0.1",)}):
        for turn in ("first", "second"):
            n_jobs, begun = Job.objects.count(), time.perf_counter()
            run = start_sync(scope=scope, connection=connection, is_queued=False)
            result = run_sync(run_id=run.pk, any_folder=True)
            spent = time.perf_counter() - begun
            assert result is not None and not result.failed, result
            is_second = turn == "second"
            most = 60.0 if is_second else None
            report.add(f"{name}: {turn} sync of {n_documents}, s", spent, most=most)
            if is_second:
                assert result.plan.n_same == n_documents, result.plan.n_same
                n_new = Job.objects.count() - n_jobs
                report.add(f"{name}: files to embed after the second", n_new, most=0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        _serve(int(sys.argv[2]))
    else:
        _measure(int(sys.argv[1]) if sys.argv[1:] else N_DOCUMENTS)
