"""Metrics: the sums of all processes, told to whom they are for; health and readiness."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from rag.core import metrics
from rag.services.operations import health
from rag.services.operations import metrics as metrics_store
from rag.services.operations.metrics import MetricsWatcher, metrics_page
from rag.services.search.retrieval import retrieve
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, StoreFactory, publish

pytestmark = pytest.mark.django_db
HEADERS = {"remote_addr": "127.0.0.1"}


@pytest.fixture
def watcher() -> Iterator[MetricsWatcher]:
    made = MetricsWatcher()
    metrics.LISTENERS.append(made)
    yield made
    metrics.LISTENERS.remove(made)


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(text)
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in families
        for one in family.samples
    }


def shown() -> dict[Any, float]:
    return samples(metrics_page().decode())


def beat(at: str = "now()") -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO procrastinate_workers (last_heartbeat) VALUES ({at})")


def test_what_several_processes_counted_is_added_up() -> None:
    for n in (1, 2):
        process = MetricsWatcher()
        process.count("cache", n, {"event": "hits"})
        process.time("step", 0.02, {"step": "search"})
        process.time("step", 700, {"step": "search"})
        assert process.flush() and process.flush()
    told = shown()
    assert told["citable_cache_total", (("event", "hits"),)] == 3
    search = ("step", "search")
    bounds = {
        bound: told["citable_step_seconds_bucket", (("le", bound), search)]
        for bound in ("0.01", "0.025", "60", "+Inf")
    }
    assert bounds == {"0.01": 0, "0.025": 2, "60": 2, "+Inf": 4}
    assert told["citable_step_seconds_sum", (search,)] == pytest.approx(1400.04)
    assert told["citable_step_seconds_count", (search,)] == 4


def test_nothing_is_lost_while_the_database_takes_nothing(
    watcher: MetricsWatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Any:
        raise OperationalError("gone")

    watcher.count("x", 2, {})
    with monkeypatch.context() as patch:
        patch.setattr(connection, "cursor", refuse)
        assert not watcher.flush()
    watcher.count("x", 3, {})
    assert watcher.flush() and shown()["citable_x_total", ()] == 5


def test_series_are_bounded(watcher: MetricsWatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_store, "MAX_SERIES", 3)
    for n in range(10):
        metrics.count("many", n=1, label=str(n))
    metrics.count("many", n=1, label="0")
    assert watcher.flush()
    told = {labels: n for (name, labels), n in shown().items() if name == "citable_many_total"}
    assert len(told) == 3 and told[(("label", "0"),)] == 2


def test_counts_of_many_threads_are_exact(watcher: MetricsWatcher) -> None:
    def count() -> None:
        for _ in range(500):
            metrics.count("race")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    watcher.flush()
    assert shown()["citable_race_total", ()] == 2000


def test_searches_caches_and_requests_are_counted(
    watcher: MetricsWatcher, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> None:
    use_words_embedder(monkeypatch, settings)
    store = StoreFactory(is_public=True)
    publish(FileFactory(store=store), "The warranty lasts two years.")
    from rag.core.access import Scope

    for _ in range(2):
        retrieve(
            query="warranty?",
            scope=Scope.operator(),
            stores=[store],
            settings=store.retrieval_settings,
        )
    Client().get("/api/nowhere?secret=words")
    text = Client().get("/metrics").content.decode()
    told = samples(text)
    assert told["citable_search_seconds_count", (("mode", "hybrid"),)] == 2
    # What is not committed is not kept; the vector of the question is.
    assert told["citable_cache_total", (("cache", "results"), ("event", "bypasses"))] == 2
    assert told["citable_cache_total", (("cache", "vectors"), ("event", "hits"))] == 1
    assert (
        told["citable_chunks", ()] >= 0 and told["citable_files", (("status", "completed"),)] == 1
    )
    assert "secret" not in text and "words" not in text
    assert any(
        name == "citable_request_seconds_count" and ("status", "404") in labels
        for name, labels in told
    )


def test_the_queue_is_told_by_depth_and_age() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, priority, status, args,"
            " attempts, scheduled_at) VALUES ('index', 't', 0, 'todo', '{}', 0, now() - interval '90 s')"
        )
    beat()
    told = shown()
    assert told["citable_jobs", (("queue", "index"), ("status", "todo"))] == 1
    assert told["citable_oldest_job_age_seconds", (("queue", "index"),)] == pytest.approx(90, abs=5)
    assert told["citable_workers", ()] == 1


@pytest.mark.parametrize(
    ("token", "facts", "status"),
    [
        ("", {"REMOTE_ADDR": "127.0.0.1"}, 200),
        ("", {"REMOTE_ADDR": "::1"}, 200),
        ("", {"REMOTE_ADDR": "10.0.0.9"}, 404),
        ("", {"REMOTE_ADDR": ""}, 404),
        ("", {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "10.0.0.9"}, 404),
        ("t0ken", {"REMOTE_ADDR": "127.0.0.1"}, 404),
        ("t0ken", {"REMOTE_ADDR": "10.0.0.9", "HTTP_AUTHORIZATION": "Bearer t0ken"}, 200),
        ("t0ken", {"HTTP_AUTHORIZATION": "Bearer t0ken2"}, 404),
        ("t0ken", {"HTTP_AUTHORIZATION": "Bearer ü"}, 404),
    ],
)
def test_metrics_are_for_this_machine_or_a_token(
    token: str, facts: dict[str, str], status: int, settings: Any
) -> None:
    settings.METRICS_TOKEN = token
    answer = Client().get("/metrics", **facts)
    assert answer.status_code == status
    assert bool(answer.content) is (status == 200)


def test_a_living_process_says_so_without_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "cursor", None)
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert Client().post("/healthz").status_code == 405


def test_it_is_ready_when_all_is_there() -> None:
    assert Client().get("/readyz").status_code == 503
    beat("now() - interval '10 minutes'")
    late = Client().get("/readyz")
    assert late.status_code == 503 and late.json()["checks"]["worker"]["ok"] is False
    beat()
    answer = Client().get("/readyz")
    assert answer.status_code == 200 and answer.json()["status"] == "ready"
    assert set(answer.json()["checks"]) == {"database", "migrations", "worker", "disk"}
    assert "no-store" in answer["Cache-Control"]


def test_what_is_missing_is_told_without_a_word_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    beat()
    monkeypatch.setattr(health, "MIN_FREE_BYTES", 10**18)
    health._applied.clear()
    monkeypatch.setattr(health.MigrationExecutor, "migration_plan", lambda *_: [1, 2])
    told = Client().get("/readyz").json()["checks"]
    assert told["migrations"] == {"ok": False, "missing": 2} and not told["disk"]["ok"]
    monkeypatch.undo()

    def refuse() -> Any:
        raise OperationalError("password of citable at db.example.org is wrong")

    monkeypatch.setattr(connection, "cursor", refuse)
    answer = Client().get("/readyz")
    assert answer.status_code == 503 and answer.json()["checks"]["database"] == {"ok": False}
    assert "example" not in answer.content.decode()


def test_every_answer_tells_its_request_and_keeps_a_good_id() -> None:
    kept = Client().get("/healthz", headers={"x-request-id": "trace-0042"})
    made = Client().get("/healthz", headers={"x-request-id": "x\n<bad>"})
    assert kept["X-Request-ID"] == "trace-0042" and len(made["X-Request-ID"]) == 16
