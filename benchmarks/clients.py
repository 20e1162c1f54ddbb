"""Load clients: searches from several processes, as queries a second."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Sequence
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from tempfile import NamedTemporaryFile

SECONDS = 6.0


def queries_per_second(queries: Sequence[object], n_clients: int) -> float:
    """Return how many searches ``n_clients`` processes get done together in a second."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(n_clients), context.Queue()
    with NamedTemporaryFile(suffix=".pickle") as file:
        file.write(pickle.dumps(list(queries)))
        file.flush()
        clients = [
            context.Process(target=_search, args=(Path(file.name), i, barrier, results))
            for i in range(n_clients)
        ]
        for client in clients:
            client.start()
        rates = [results.get(timeout=120) for _ in clients]
        for client in clients:
            client.join()
    return float(sum(rates))


def _search(file: Path, number: int, barrier: Barrier, results: Queue[float]) -> None:
    from benchmarks.scratch import join_database  # sets Django up, in the client's process

    join_database()
    from rag.providers.postgres.search.index import PostgresIndex

    queries = pickle.loads(file.read_bytes())
    index = PostgresIndex()
    for query in queries[:20]:
        index.search(query)
    barrier.wait()
    begun = time.perf_counter()
    n = 0
    while time.perf_counter() - begun < SECONDS:
        index.search(queries[(number * 97 + n) % len(queries)])
        n += 1
    results.put(n / (time.perf_counter() - begun))
