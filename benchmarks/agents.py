"""Agents benchmark: overhead beside the models, concurrent streams, resumed streams.

Run ``python -m benchmarks.agents [--chunks N]``. Two servers with four connections each stand on a
database of its own; the model is scripted and the questions' vectors are known, so that both take
no time. Measured is

- the pipeline: LoadHistory to Generate in the server, its engine, searches, citations and thread
  changes included, as the event ``usage`` tells it. Writing the question and the answer down,
  the key's check and HTTP are no part of it;
- the whole answer as its client sees it: connection kept, key checked, question, events, answer and
  ledger written, streamed to the last event.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from benchmarks.scratch import scratch_database

# isort: split
# Django is set up by now, so that models can be imported.
import httpx2
import numpy as np
from django.contrib.auth import get_user_model

from agents import models
from benchmarks.agent_server import serving
from benchmarks.record import Report
from benchmarks.search_world import build_world, known_vectors
from benchmarks.spool import Spool
from benchmarks.synthetic import SyntheticCorpus
from rag.services.access.api_keys import create_key

N_QUESTIONS, N_STREAMS, N_CUTS = 200, 50, 1000
WORDS = " ".join(f"word{number}" for number in range(60))
SCRIPT = {
    "answers": [
        {"contains": "steadily", "answer": WORDS, "delay_s": 1.0},
        {"contains": "slowly", "answer": WORDS, "delay_s": 5.0},
    ],
    "default": "Fifteen minutes.",
}
Event = tuple[int, str, dict[str, object]]
T = TypeVar("T")


class Times(NamedTuple):
    """Milliseconds to the first event, of the pipeline in the server, and to the last event."""

    first: float
    pipeline: float
    whole: float


class Client:
    """Asks the agent of a server and reads its events, as far as it wants."""

    def __init__(self, urls: Sequence[str], secret: str) -> None:
        self.urls = urls
        self._http = httpx2.Client(
            headers={"Authorization": f"Bearer {secret}"},
            timeout=120,
            limits=httpx2.Limits(max_connections=None),
        )

    def ask(self, message: str, n_events: int = 10**6) -> list[Event]:
        """Return the first events of an answer; leaving cuts the connection."""
        body = {"message": message}
        return self._read("POST", f"{self.urls[0]}/api/agents/load/chat", n_events, json=body)

    def follow(self, url: str, key: object, after: int, n_events: int) -> list[Event]:
        """Return further events, from any server."""
        headers = {"Last-Event-ID": str(after)}
        return self._read("GET", f"{url}/api/agents/load/chat/{key}", n_events, headers=headers)

    def times_of(self, message: str) -> Times:
        """Return how long an answer took; leave the program when there is none."""
        begun, first_ms, text = time.perf_counter(), 0.0, ""
        url, body = f"{self.urls[0]}/api/agents/load/chat", {"message": message}
        with self._http.stream("POST", url, json=body) as answer:
            for piece in answer.iter_text():
                text += piece
                if not first_ms and "event: start" in text:
                    first_ms = (time.perf_counter() - begun) * 1e3
        whole_ms = (time.perf_counter() - begun) * 1e3
        events = {kind: data for _, kind, data in _events(text)}
        if "done" not in events:
            raise SystemExit(f"no answer: {text[-300:]!r}")
        return Times(first_ms, float(str(events["usage"]["duration_ms"])), whole_ms)

    def _read(self, method: str, url: str, n_events: int, **values: object) -> list[Event]:
        text = ""
        with self._http.stream(method, url, **values) as answer:  # type: ignore[arg-type]
            if answer.status_code != 200:
                raise SystemExit(f"{url}: {answer.status_code} {answer.read()[:300]!r}")
            for piece in answer.iter_text():
                text += piece
                if text.count("\n\nid: ") + text.startswith("id: ") > n_events:
                    break
        return list(_events(text[: text.rfind("\n\n") + 2]))


def _events(text: str) -> Iterator[Event]:
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "id" in lines:
            yield int(lines["id"]), lines["event"], json.loads(lines["data"])


def measure_overhead(report: Report, client: Client, questions: Sequence[str]) -> None:
    """Print how long an answer takes whose model takes no time."""
    half = len(questions) // 2
    for question in questions[:half]:
        client.times_of(question)
    times = [client.times_of(question) for question in questions[half:]]
    pipelines, wholes = [one.pipeline for one in times], [one.whole for one in times]
    report.add("the pipeline but for its models: p50 ms", statistics.median(pipelines), most=15)
    report.add("the pipeline but for its models: p95 ms", float(np.percentile(pipelines, 95)))
    report.add("a whole answer over HTTP: p50 ms", statistics.median(wholes))
    report.add("a whole answer over HTTP: p95 ms", float(np.percentile(wholes, 95)))
    firsts = [one.first for one in times]
    report.add("to the first event: p50 ms", statistics.median(firsts), most=100)
    report.add("to the first event: at most ms", max(firsts))


def measure_crowd(report: Report, client: Client, questions: Sequence[str]) -> None:
    """Print how many of many streams at once end as they should, and who waits meanwhile."""
    begun = time.perf_counter()
    with ThreadPoolExecutor(1) as beside:
        late = beside.submit(_beside, client, questions)
        answers = _at_once(N_STREAMS, lambda number: client.ask(f"Tell slowly: pump {number}"))
        firsts = late.result()
    right = sum(_is_whole(events) for events in answers)
    report.add(f"{N_STREAMS} streams at once: without error", right, least=N_STREAMS)
    report.add(f"{N_STREAMS} streams of 5 s at once: s", time.perf_counter() - begun)
    name = f"beside {N_STREAMS} streams, to the first event: p50 ms"
    report.add(name, statistics.median(firsts), most=100)
    burst = _at_once(N_STREAMS, lambda number: client.times_of(questions[number]))
    name = f"{N_STREAMS} asked at one moment, to the first event"
    report.add(f"{name}: p50 ms", statistics.median(one.first for one in burst))
    report.add(f"{name}: at most ms", max(one.first for one in burst))


def _beside(client: Client, questions: Sequence[str]) -> list[float]:
    # The streams begin within a second and last five.
    time.sleep(2)
    return [client.times_of(question).first for question in questions[:20]]


def measure_cuts(report: Report, client: Client) -> None:
    """Print how many answers are whole although their readers are cut off at random."""
    chance = random.Random(1)
    n_cuts = 0

    def read(number: int) -> list[Event]:
        nonlocal n_cuts
        events = client.ask(f"Tell steadily: pump {number}", chance.randint(1, 30))
        key = events[0][2]["message"]
        while events[-1][1] not in ("done", "error", "stopped"):
            n_cuts += 1
            url, n = chance.choice(client.urls), chance.randint(1, 25)
            events += client.follow(url, key, events[-1][0], n)
        return events

    whole = n_read = 0
    while n_cuts < N_CUTS:
        answers = _at_once(12, read)
        n_read, whole = n_read + len(answers), whole + sum(map(_is_whole, answers))
    report.add("cut off and resumed: times", n_cuts)
    report.add("cut off and resumed: share of identical texts", whole / n_read, least=1)


def _at_once(n: int, work: Callable[[int], T]) -> list[T]:
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(work, range(n)))


def _is_whole(events: Sequence[Event]) -> bool:
    numbers = [number for number, _, _ in events]
    text = "".join(str(data["text"]) for _, kind, data in events if kind == "delta")
    is_done = events[-1][1] == "done"
    return is_done and text == WORDS and numbers == list(range(1, len(events) + 1))


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    n = parser.parse_args().chunks
    report = Report("agents")
    with TemporaryDirectory(prefix="citable-bench-") as folder, scratch_database():
        corpus = SyntheticCorpus()
        spool = Spool(Path(folder), corpus, n)
        numbers = np.random.default_rng(2).choice(n, N_QUESTIONS, replace=False)
        questions = [corpus.question(passage) for passage in spool.pick(numbers.tolist())]
        world = build_world(Report("loading"), spool, questions)
        owner = get_user_model().objects.create_user("bench")
        type(world.store).objects.filter(pk=world.store.pk).update(owner=owner)
        agent = models.Agent.objects.create(
            name="load",
            owner=owner,
            config={"enable_query_rewrite": False, "min_confidence_score": 0.0},
        )
        agent.stores.set([world.store])
        _, secret = create_key(
            user=owner, name="bench", rights=["read", "write"], requests_per_minute=100_000
        )
        (Path(folder) / "script.yaml").write_text(json.dumps(SCRIPT), encoding="utf-8")
        (Path(folder) / "vectors").write_bytes(pickle.dumps(known_vectors(questions)))
        with serving(Path(folder)) as first, serving(Path(folder)) as second:
            client = Client((first, second), secret)
            client.ask("Hello steadily: pump")
            texts = [question.text for question in questions]
            measure_overhead(report, client, texts[N_STREAMS:])
            measure_crowd(report, client, texts[:N_STREAMS])
            measure_cuts(report, client)
    report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
