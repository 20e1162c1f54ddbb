"""Migration benchmark, its load: 20 queries a second from a process of their own."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import numpy as np

from benchmarks.scratch import join_database

# isort: split
from benchmarks.swap_models import questions_of, use_models
from rag import models
from rag.core.access import Scope
from rag.core.types import RetrievalSettings
from tests.index_hits import index_hits

PER_SECOND = 20
Hits = tuple[int | None, ...]


@dataclass(slots=True)
class ClientReport:
    """What the askers met."""

    times_ms: list[float] = field(default_factory=list)
    answers: list[tuple[str, Hits]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def percentile(self, at: float) -> float:
        """Return a percentile of the times."""
        return float(np.percentile(self.times_ms, at))


class ClientLoad:
    """Asks while a block runs; ``told`` is there afterwards."""

    def __init__(self, store_id: int, folder: Path) -> None:
        self._out, self._stop = folder / "told.pickle", folder / "stop"
        self._words = [str(store_id), str(folder)]
        self.told = ClientReport()

    def __enter__(self) -> ClientLoad:
        self._stop.unlink(missing_ok=True)
        self._out.unlink(missing_ok=True)
        self._process = subprocess.Popen([sys.executable, "-m", __name__, *self._words])
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.touch()
        self._process.wait(60)
        self.told = pickle.loads(self._out.read_bytes())


def ask_alone(store_id: int, folder: Path, seconds: float) -> ClientReport:
    """Return what askers meet while nothing else happens."""
    with ClientLoad(store_id, folder) as asking:
        time.sleep(seconds)
    return asking.told


def answer(store_id: int, query: str) -> Hits:
    """Return the chunks that a query finds."""
    found = index_hits(
        query=query,
        scope=Scope.operator(),
        stores=[models.Store.objects.get(pk=store_id)],
        settings=RetrievalSettings(mode="hybrid", top_k=10),
    )
    return tuple(hit.chunk_id for hit in found.hits)


def main(store_id: int, folder: Path) -> None:
    """Ask until the folder says stop, at a steady pace whatever an answer takes."""
    join_database()
    use_models(folder)
    told, due = ClientReport(), time.perf_counter()
    for query in cycle(questions_of(folder)):
        if (folder / "stop").exists():
            break
        due += 1 / PER_SECOND
        time.sleep(max(0.0, due - time.perf_counter()))
        begun = time.perf_counter()
        try:
            hits = answer(store_id, query)
        except Exception as error:  # whatever a reader would have met
            told.failed.append(f"{type(error).__name__}: {error}")
            continue
        told.times_ms.append((time.perf_counter() - begun) * 1e3)
        told.answers.append((query, hits))
    pickled = folder / "told.part"
    # Under the module's name, so that another process finds the class.
    from benchmarks.swap_clients import ClientReport as Named

    pickled.write_bytes(pickle.dumps(Named(told.times_ms, told.answers, told.failed)))
    pickled.replace(folder / "told.pickle")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
