"""Profile of one request: milliseconds of each part of ``POST /api/rag/retrieve``, with its budget.

Run ``python -m benchmarks.http_profile [--chunks N]`` (20,000). The server stands in this process,
on a database of its own with the demo's documents and a store of synthetic chunks; one client asks
questions that are new, and the last of them again. A part's time is what it takes beside the parts
inside of it. SQL statements are counted; CPU times are those of the server alone and of PostgreSQL,
which stay what they are on a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

from benchmarks.scratch import scratch_database

# isort: split
# Django is set up by now, so that models can be imported.
import uvicorn
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection

from benchmarks.record import Report
from benchmarks.search_world import load_store
from benchmarks.spool import Spool
from benchmarks.synthetic import SyntheticCorpus
from project.web_server import server_config
from rag.management.commands.rag_demo import FOLDER
from rag.services.access.api_keys import create_key
from rag.services.stores.lifecycle import create_store

N_QUESTIONS = 200
N_WARM = 40


class Part(NamedTuple):
    """A part of a request: its budget for a new question, and the functions that it is made of."""

    name: str
    budget_ms: float
    functions: tuple[str, ...]


PARTS = (
    Part("socket, HTTP, client", 0.6, ()),
    Part("middleware, threads", 0.6, ("project.request_limits.LimitedASGIHandler.__call__",)),
    Part("body, view", 0.3, ("ninja.operation.Operation.run",)),
    Part("key", 0.25, ("rag.api.http.authentication.authenticate_key",)),
    Part("rate limit", 0.25, ("rag.api.http.authentication.count_key_call",)),
    Part("stores of the caller", 0.2, ("rag.api.retrieval.rag.find_stores",)),
    Part("retrieval, the rest of it", 0.1, ("rag.api.retrieval.rag.retrieve",)),
    Part(
        "cache",
        0.4,
        (
            "rag.services.search.retrieval.retrieval_key",
            "rag.services.search.retrieval.fetch_result",
        ),
    ),
    Part("analysis, the rest of a search", 0.3, ("rag.services.search.retrieval._retrieve_fresh",)),
    Part("rights, spaces", 0.25, ("rag.services.search.engine.resolve_targets",)),
    Part("vector of the question", 2.0, ("rag.services.search.engine.embed_query",)),
    Part(
        "words of the question, hits",
        0.4,
        (
            "rag.services.search.engine._lexical_query",
            "rag.providers.postgres.search.index.hybrid_search",
        ),
    ),
    Part("statement", 2.5, ("rag.providers.postgres.search.hybrid.fetch_search_rows",)),
    Part("merging", 0.3, ("rag.services.search.retrieval.postprocess_hits",)),
    Part(
        "confidence, answerability",
        0.3,
        (
            "rag.services.search.retrieval.search_confidence",
            "rag.services.search.retrieval._judged",
        ),
    ),
    Part("log", 0.25, ("rag.services.search.retrieval.log_query",)),
    Part("context", 0.1, ("rag.api.retrieval.rag.ContextBuilder.build",)),
    Part("JSON", 0.2, ("ninja.operation.Operation._result_to_response",)),
)
_OUTSIDE = PARTS[0].name


class Spent(NamedTuple):
    """Milliseconds by the clock, and of the processor in this process."""

    ms: float
    cpu_ms: float


class PartTimer:
    """Time of each part without the parts inside of it; one request at a time, on any thread."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Spent]] = []
        self._spent: dict[str, Spent] = {}
        self._inner: list[Spent] = []
        self._is_answered = threading.Event()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the block as ``name``."""
        begun, cpu_s = time.perf_counter(), time.process_time()
        self._inner.append(Spent(0.0, 0.0))
        try:
            yield
        finally:
            ms, cpu_ms = (time.perf_counter() - begun) * 1e3, (time.process_time() - cpu_s) * 1e3
            inner, before = self._inner.pop(), self._spent.get(name, Spent(0.0, 0.0))
            self._spent[name] = Spent(
                before.ms + ms - inner.ms, before.cpu_ms + cpu_ms - inner.cpu_ms
            )
            if self._inner:
                outer = self._inner[-1]
                self._inner[-1] = Spent(outer.ms + ms, outer.cpu_ms + cpu_ms)
            else:
                self._is_answered.set()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Keep the parts of the block as those of one request."""
        self._spent = {}
        self._is_answered.clear()
        begun, cpu_s = time.perf_counter(), time.process_time()
        yield
        ms = (time.perf_counter() - begun) * 1e3
        # The client may have the last byte before the server has closed its books.
        self._is_answered.wait(60)
        cpu_ms = (time.process_time() - cpu_s) * 1e3
        within = [sum(kind) for kind in zip(*self._spent.values(), strict=True)]
        self._spent[_OUTSIDE] = Spent(ms - within[0], cpu_ms - within[1])
        self.requests.append(self._spent)

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``work``, whose calls are counted as ``name``."""
        if asyncio.iscoroutinefunction(work):

            @functools.wraps(work)
            async def wait(*args: Any, **values: Any) -> Any:
                with self.part(name):
                    return await work(*args, **values)

            return wait

        @functools.wraps(work)
        def call(*args: Any, **values: Any) -> Any:
            with self.part(name):
                return work(*args, **values)

        return call

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the parts while the block runs."""
        with ExitStack() as patches:
            for part in PARTS:
                for path in part.functions:
                    owner, name = _owner(path)
                    timed = self.timed(part.name, getattr(owner, name))
                    patches.enter_context(patch.object(owner, name, timed))
            yield


def _owner(path: str) -> tuple[Any, str]:
    """Return the module or class that holds what ``path`` names, and its name there."""
    parts = path.split(".")
    for n in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for name in parts[n:-1]:
            owner = getattr(owner, name)
        return owner, parts[-1]
    raise LookupError(path)


class Client:
    """Asks over one connection that is kept; ``cpu_s`` is what asking itself has cost."""

    def __init__(self, port: int, secret: str, store: str) -> None:
        self._http = HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self._store = store

    def ask(self, question: str) -> bytes:
        """Return the answer's body; leave the program when there is none."""
        body = json.dumps({"query": question, "stores": [self._store]}).encode()
        self._http.request("POST", "/api/rag/retrieve", body, self._headers)
        answer = self._http.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"no answer: {answer.status} {text[:300]!r}")
        return text


@contextmanager
def _serving() -> Iterator[int]:
    """Run the web server on a thread of this process; its port."""
    server = uvicorn.Server(server_config(host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def _postgres_cpu_s() -> float:
    """Return the CPU seconds that the backends of this database have had."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        pids = [pid for (pid,) in cursor.fetchall()]
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(report: Report, what: str, client: Client, questions: Sequence[str]) -> None:
    """Print the parts of a request, new questions beside one that is asked again."""
    for question in questions[:N_WARM]:
        client.ask(question)
    new, again = questions[N_WARM:], [questions[-1]] * (len(questions) - N_WARM)
    timers, totals = [], []
    for asked in (new, again):
        # Times without a watch, then the parts: watching costs something itself.
        cpu_s, own_s = time.process_time(), time.thread_time()
        postgres_s, wall = _postgres_cpu_s(), list[float]()
        half = asked[: len(asked) // 2]
        for question in half:
            at = time.perf_counter()
            client.ask(question)
            wall.append((time.perf_counter() - at) * 1e3)
        n = len(half)
        totals.append(
            (
                statistics.median(wall),
                (time.process_time() - cpu_s - time.thread_time() + own_s) * 1e3 / n,
                (_postgres_cpu_s() - postgres_s) * 1e3 / n,
            )
        )
        timer = PartTimer()
        with timer.watching():
            for question in asked[len(half) :]:
                with timer.request():
                    client.ask(question)
        timers.append(timer)
    _print_parts(what, timers)
    for name, figures in zip(("new", "again"), totals, strict=True):
        report.add(f"{what}, {name}: p50 ms", figures[0], most=7 if name == "new" else None)
        report.add(f"{what}, {name}: CPU of the server, ms", figures[1])
        report.add(f"{what}, {name}: CPU of PostgreSQL, ms", figures[2])


def _print_parts(what: str, timers: Sequence[PartTimer]) -> None:
    names = [part.name for part in PARTS]
    titles = ("new: ms", "budget", "", "CPU ms", "again: ms", "CPU ms")
    print(f"\n  {what + ', medians':<40}" + "".join(f"{title:>10}" for title in titles))
    for part in PARTS:
        new, again = (_median(timer, [part.name]) for timer in timers)
        verdict = "" if new.ms <= part.budget_ms else "OVER"
        _print_line(part.name, new, part.budget_ms, verdict, again)
    new, again = (_median(timer, names) for timer in timers)
    _print_line("in all", new, sum(part.budget_ms for part in PARTS), "", again)
    print()


def _print_line(name: str, new: Spent, budget_ms: float, verdict: str, again: Spent) -> None:
    first = f"{new.ms:>10.2f}{budget_ms:>10.2f}{verdict:>10}{new.cpu_ms:>10.2f}"
    print(f"  {name:<40}{first}{again.ms:>10.2f}{again.cpu_ms:>10.2f}")


def _median(timer: PartTimer, names: Sequence[str]) -> Spent:
    sums = [
        [sum(one.get(name, Spent(0.0, 0.0))[kind] for name in names) for one in timer.requests]
        for kind in (0, 1)
    ]
    return Spent(*map(statistics.median, sums))


def count_statements(client: Client, questions: Sequence[str]) -> None:
    """Print the SQL statements of a new question, each with its number."""
    counted: Counter[str] = Counter()
    from psycopg import Cursor

    execute = Cursor.execute

    def counting(self: Any, query: Any, *args: Any, **values: Any) -> Any:
        counted[" ".join(str(query).split())[:90]] += 1
        return execute(self, query, *args, **values)

    with patch.object(Cursor, "execute", counting):
        for question in questions:
            client.ask(question)
    for statement, n in counted.most_common():
        print(f"    {n / len(questions):>6.2f}  {statement}")


def _demo_questions() -> list[str]:
    asked = json.loads((FOLDER / "questions.json").read_text(encoding="utf-8"))
    texts = [one["question"] for kind in ("demo", "golden") for one in asked[kind]]
    openings = (
        "",
        "Please tell me: ",
        "I would like to know: ",
        "请问，",
        "One more: ",
        "麻烦问一下：",
    )
    return [opening + text for opening in openings for text in texts]


def main() -> int:
    """Print the profiles and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    n = parser.parse_args().chunks
    report = Report(f"requests, {n:,} chunks")
    with TemporaryDirectory(prefix="citable-bench-") as folder, scratch_database():
        call_command("rag_demo")
        corpus = SyntheticCorpus()
        spool = Spool(Path(folder), corpus, n)
        store = create_store(name="large")
        load_store(Report("printed only"), spool, store)
        passages = spool.pick(list(range(0, n, max(1, n // N_QUESTIONS))))
        asked = {
            "demo": _demo_questions(),
            "large": [corpus.question(passage).text for passage in passages],
        }
        user = get_user_model().objects.get(is_superuser=True)
        _, secret = create_key(user=user, name="profile", requests_per_minute=100_000)
        with _serving() as port:
            for slug, questions in asked.items():
                client = Client(port, secret, slug)
                measure(report, slug, client, questions)
                count_statements(client, [f"{text} then" for text in questions[:20]])
    report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
