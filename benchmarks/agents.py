"""What an agent takes beside its models, many at once, and cut off. In: nothing. Out: a row.

Run ``python -m benchmarks.agents [--chunks N]``. Two servers with four connections each stand on a
database of its own; the model is scripted and the questions' vectors are known.
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

from benchmarks.scratch import scratch_database

# isort: split
# Django is set up by now, so that models can be imported.
import httpx2
import numpy as np
from django.contrib.auth import get_user_model

from agents import models
from benchmarks.agent_server import serving
from benchmarks.record import Report
from benchmarks.search_world import build_world
from benchmarks.spool import Spool
from benchmarks.synthetic import SyntheticCorpus
from rag.services.api_keys import make_key

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


class Client:
    """Asks the agent of a server and reads its events, as far as it wants."""

    def __init__(self, urls: Sequence[str], secret: str) -> None:
        self.urls = urls
        self._http = httpx2.Client(
            headers={"Authorization": f"Bearer {secret}"}, timeout=120,
            limits=httpx2.Limits(max_connections=None),
        )  # fmt: skip

    def ask(self, message: str, n_events: int = 10**6) -> list[Event]:
        """Return the first events of an answer; leaving cuts the connection."""
        body = {"message": message}
        return self._read("POST", f"{self.urls[0]}/api/agents/load/chat", n_events, json=body)

    def follow(self, url: str, key: object, after: int, n_events: int) -> list[Event]:
        """Return further events, from any server."""
        headers = {"Last-Event-ID": str(after)}
        return self._read("GET", f"{url}/api/agents/load/chat/{key}", n_events, headers=headers)

    def times_of(self, message: str) -> tuple[float, float]:
        """Return the milliseconds to the first event and to the last."""
        begun, first_ms, last = time.perf_counter(), 0.0, b""
        url, body = f"{self.urls[0]}/api/agents/load/chat", {"message": message}
        with self._http.stream("POST", url, json=body) as answer:
            for piece in answer.iter_raw():
                first_ms = first_ms or (time.perf_counter() - begun) * 1e3
                last = piece
        if b"event: done" not in last:
            raise SystemExit(f"no answer: {last!r}")
        return first_ms, (time.perf_counter() - begun) * 1e3

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
    firsts, totals = [first for first, _ in times], [total for _, total in times]
    report.add("an answer but for its models: p50 ms", statistics.median(totals), most=15)
    report.add("an answer but for its models: p95 ms", float(np.percentile(totals, 95)))
    report.add("to the first event: p50 ms", statistics.median(firsts), most=100)
    report.add("to the first event: at most ms", max(firsts))


def measure_crowd(report: Report, client: Client) -> None:
    """Print how many of many streams at once end as they should."""
    begun = time.perf_counter()
    answers = _at_once(N_STREAMS, lambda number: client.ask(f"Tell slowly: pump {number}"))
    right = sum(_is_whole(events) for events in answers)
    report.add(f"{N_STREAMS} streams at once: without error", right, least=N_STREAMS)
    report.add(f"{N_STREAMS} streams of 5 s at once: s", time.perf_counter() - begun)


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


def _at_once(n: int, work: Callable[[int], list[Event]]) -> list[list[Event]]:
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
            name="load", owner=owner,
            config={"enable_query_rewrite": False, "min_confidence_score": 0.0},
        )  # fmt: skip
        agent.stores.set([world.store])
        _, secret = make_key(
            user=owner, name="bench", rights=["read", "write"], requests_per_minute=100_000
        )
        (Path(folder) / "script.yaml").write_text(json.dumps(SCRIPT), encoding="utf-8")
        known = {question.text: question.vector for question in questions}
        (Path(folder) / "vectors").write_bytes(pickle.dumps(known))
        with serving(Path(folder)) as first, serving(Path(folder)) as second:
            client = Client((first, second), secret)
            client.ask("Hello steadily: pump")
            measure_overhead(report, client, [question.text for question in questions])
            measure_crowd(report, client)
            measure_cuts(report, client)
    report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
