"""Several sources at once: none waits for another, and each way to fail is told apart."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.utils import translation

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import (
    CancelledError,
    InvalidInputError,
    LimitError,
    NotFoundError,
    ProviderError,
    ProviderTimeoutError,
    UnknownNameError,
)
from rag.core.hits import Hit
from rag.core.plugins import PLUGINS
from rag.plugins.rows.postgres import APPLICATION
from rag.plugins.sources.database import DatabaseSource
from rag.services import threads
from rag.services.sources.run import SourceCall, SourceOutcome, run_sources
from tests.fakes.slow_sources import PlayedSource
from tests.forked_processes import run_python


@pytest.fixture(autouse=True)
def _played(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(PLUGINS._found["source"], PlayedSource.name, PlayedSource)
    PlayedSource.tries.clear()
    PlayedSource.released.clear()
    yield
    PlayedSource.released.set()


def play(part: str, timeout_s: float = 5.0, *, retries: int = 0, **options: Any) -> SourceCall:
    given = {"part": part, "subject": part, **options}
    return SourceCall(
        name=part, plugin="played", options=given, timeout_s=timeout_s, retries=retries
    )


def run(*calls: SourceCall, deadline: Deadline | None = None, **values: Any) -> list[SourceOutcome]:
    return run_sources(
        calls=calls, text="保修?", scope=Scope.anonymous(), values=values, deadline=deadline
    )


def statuses(outcomes: list[SourceOutcome]) -> list[str]:
    return [outcome.status for outcome in outcomes]


def test_outcomes_come_in_the_order_of_the_calls_with_all_that_was_found() -> None:
    late, empty, quick = run(
        SourceCall(name="late", plugin="played", options={"part": "quick", "seconds": 0.2}),
        play("empty"),
        play("quick"),
        region="north",
    )
    assert statuses([late, empty, quick]) == ["ok", "empty", "ok"]
    assert [hit.text for hit in quick.hits] == ["保修? north"]
    assert (quick.notes, quick.message, quick.error, quick.attempts) == (("a note",), "", None, 1)
    assert (late.name, late.plugin) == ("late", "played")
    assert 200 <= late.duration_ms < 2000


def test_no_calls_no_outcomes() -> None:
    assert run() == []


def test_calls_run_side_by_side() -> None:
    started = time.monotonic()
    calls = [
        SourceCall(name=str(n), plugin="played", options={"part": "quick", "seconds": 0.4})
        for n in range(10)
    ]
    assert statuses(run(*calls)) == ["ok"] * 10
    assert time.monotonic() - started < 1.5


def test_a_source_that_hangs_takes_only_its_own_time_and_spoils_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    started = time.monotonic()
    with caplog.at_level(logging.WARNING):
        stubborn, obedient, quick, failing = run(
            play("stubborn", 0.4), play("obedient", 0.3), play("quick", 5), play("failing", 5)
        )
    assert "the source stubborn (played)" in caplog.text
    assert time.monotonic() - started < 1.0
    assert statuses([stubborn, obedient, quick, failing]) == ["timeout", "timeout", "ok", "error"]
    assert stubborn.message == (
        "The source “stubborn” did not answer within 0.4 s. Try again, or allow more time."
    )
    assert 390 <= stubborn.duration_ms < 900
    assert isinstance(obedient.error, ProviderTimeoutError)
    assert quick.hits and failing.message == "The service is down. Wait."


def test_a_slow_call_does_not_shorten_the_one_after_it() -> None:
    slow, fast = run(play("obedient", 0.5), play("quick", 0.2))
    assert statuses([slow, fast]) == ["timeout", "ok"]


def test_only_what_may_pass_is_tried_again() -> None:
    recovering, failing, refusing = run(
        play("recovering", retries=3), play("failing", retries=1), play("refusing", retries=3)
    )
    assert (recovering.status, recovering.attempts) == ("ok", 3)
    assert (failing.status, failing.attempts, PlayedSource.tries["failing"]) == ("error", 2, 2)
    assert (refusing.status, refusing.attempts) == ("error", 1)


def test_tries_end_with_the_time() -> None:
    started = time.monotonic()
    (failing,) = run(play("failing", 0.5, retries=10))
    assert time.monotonic() - started < 0.6
    assert (failing.status, failing.message) == ("error", "The service is down. Wait.")
    assert 2 <= failing.attempts < 10


@pytest.mark.parametrize(
    ("part", "kind"), [("broken", "KeyError"), ("exiting", "SystemExit"), ("nothing", "TypeError")]
)
def test_a_fault_of_a_plugin_is_an_error_and_its_traceback_is_logged(
    part: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        faulty, quick = run(play(part), play("quick"))
    assert statuses([faulty, quick]) == ["error", "ok"]
    assert f"The source “{part}” has a fault ({kind}" in faulty.message
    assert "The server's log says where." in faulty.message
    (record,) = caplog.records
    assert "Traceback" in caplog.text and "sources/run.py" in caplog.text
    assert record.getMessage() == f"the source {part} (played) has a fault"


def test_what_is_unknown_or_malformed_is_the_error_of_its_call_alone() -> None:
    unknown, odd, missing, quick = run(
        SourceCall(name="a", plugin="no_such"),
        SourceCall(name="b", plugin="played", options={"part": "quick", "speed": 9}),
        SourceCall(name="c", plugin="played"),
        play("quick"),
    )
    assert statuses([unknown, odd, missing, quick]) == ["error", "error", "error", "ok"]
    assert isinstance(unknown.error, UnknownNameError)
    assert "Unknown source “no_such”" in unknown.message and "played" in unknown.message
    assert "speed" in odd.message and "part" in odd.message
    assert "needs the option “part”" in missing.message


def test_calls_are_checked_before_any_runs() -> None:
    with pytest.raises(InvalidInputError, match="Two sources have the name “quick”"):
        run(play("quick"), play("quick"))
    for wrong in ({"timeout_s": 0}, {"timeout_s": 601}, {"retries": -1}, {"retries": 11}):
        with pytest.raises(InvalidInputError, match="of the source “x” is"):
            SourceCall(name="x", plugin="played", **wrong)
    assert PlayedSource.tries == {}


def test_who_stops_waiting_stops_all_and_keeps_what_was_there() -> None:
    deadline = Deadline(30)
    threading.Timer(0.3, deadline.cancel).start()
    started = time.monotonic()
    quick, obedient, stubborn = run(
        play("quick"), play("obedient", 30), play("stubborn", 30), deadline=deadline
    )
    assert time.monotonic() - started < 1.0
    assert statuses([quick, obedient, stubborn]) == ["ok", "cancelled", "cancelled"]
    assert isinstance(stubborn.error, CancelledError)
    with pytest.raises(CancelledError):
        run(play("quick"), deadline=deadline)


def test_the_deadline_of_all_bounds_each() -> None:
    started = time.monotonic()
    assert statuses(run(play("stubborn", 30), play("quick"), deadline=Deadline(0.3))) == [
        "timeout",
        "ok",
    ]
    assert time.monotonic() - started < 0.8
    with pytest.raises(ProviderTimeoutError):
        run(play("quick"), deadline=Deadline(0))


def test_threads_are_bounded_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_detached_slots", threading.BoundedSemaphore(2))
    first, second, third, fourth = run(
        play("stubborn", 0.3),
        SourceCall(name="again", plugin="played", options={"part": "stubborn"}, timeout_s=0.3),
        play("quick", 0.5),
        play("empty", 0.5),
    )
    assert statuses([first, second, third, fourth]) == ["timeout", "timeout", "error", "error"]
    assert isinstance(third.error, LimitError)
    PlayedSource.released.set()
    assert statuses(run(play("quick"), play("empty"), play("failing"))) == ["ok", "empty", "error"]


def test_the_language_of_the_caller_goes_along() -> None:
    with translation.override("zh-hans"):
        (outcome,) = run(play("language"))
    assert outcome.hits[0].text == "zh-hans"


def test_an_outcome_is_json_safe() -> None:
    quick, failing = (
        json.loads(json.dumps(one.as_dict())) for one in run(play("quick"), play("failing"))
    )
    assert Hit.from_dict(quick["hits"][0]).text == "保修?"
    assert (quick["status"], quick["error"], quick["notes"]) == ("ok", None, ["a note"])
    assert failing["message"] == "The service is down. Wait."
    assert ProviderError.from_dict(failing["error"]).message == "The service is down."


async def test_async_callers_do_not_block_their_loop() -> None:
    outcomes = await sync_to_async(run, thread_sensitive=False)(play("quick"), play("failing"))
    assert statuses(outcomes) == ["ok", "error"]


def test_a_hanging_source_does_not_keep_the_process_from_ending() -> None:
    code = (
        "import os, time; os.environ['DJANGO_SETTINGS_MODULE'] = 'project.settings'\n"
        "import django; django.setup()\n"
        "from rag.core.deadline import Deadline\n"
        "from rag.services.threads import start_detached\n"
        "future = start_detached(lambda: time.sleep(600), deadline=Deadline(5))\n"
        "print(future.done())"
    )
    done = run_python("-c", code, env=os.environ, timeout=40)
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_too_slow_is_freed_and_no_connection_is_left(settings: Any) -> None:
    settings.RAG = {**settings.RAG, "SOURCE_DATABASES": ("default",)}
    PLUGINS.add("source", DatabaseSource)

    def call(name: str, sql: str, timeout_s: float) -> SourceCall:
        given = {"query_template": sql}
        return SourceCall(name=name, plugin="database", options=given, timeout_s=timeout_s)

    slow, quick, wrong = run(
        call("slow", "SELECT pg_sleep(60)", 0.5),
        call("quick", "SELECT {user_query}::text AS q, {token_id}::int AS t", 10),
        call("wrong", "SELECT nope", 10),
        token_id=7,
    )
    assert statuses([slow, quick, wrong]) == ["timeout", "ok", "error"]
    assert quick.hits[0].data == {"q": "保修?", "t": 7}
    assert "nope" in wrong.message
    end = time.monotonic() + 3
    while _n_backends():
        assert time.monotonic() < end, "the backend is still at work"
        time.sleep(0.02)


@pytest.mark.django_db(transaction=True)
def test_our_stores_are_searched_with_the_rights_of_the_asker() -> None:
    calls = [SourceCall(name="kb", plugin="vector_store", options={"collection": "nobody-s"})]
    (outcome,) = run(*calls)
    assert isinstance(outcome.error, NotFoundError)
    assert "is not there, or you may not read it" in outcome.message
    assert "nobody-s" not in outcome.message


def _n_backends() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = %s AND datname = current_database()",
            [APPLICATION],
        )
        return int(cursor.fetchone()[0])
