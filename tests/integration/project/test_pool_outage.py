"""The pool while its server is away: whoever asks hears of it soon, and of its return at once."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError, connection, connections

from tests.cuttable_proxy import CuttableProxy


@pytest.fixture
def line(django_db_setup: None, django_db_blocker: Any) -> Iterator[CuttableProxy]:
    own = connection.settings_dict

    def dial() -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{own['HOST']}/.s.PGSQL.{own['PORT']}")
        return server

    if not str(own["HOST"]).startswith("/"):
        pytest.skip("the server of DATABASE_URL is not on a socket")
    made = CuttableProxy(dial)
    with django_db_blocker.unblock():
        yield made
    made.close()


def test_a_server_that_is_away_is_told_soon_and_found_again_at_once(
    line: CuttableProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = {"min_size": 0, "max_size": 3, "timeout": 10}
    place: dict[str, Any] = {"HOST": "127.0.0.1", "PORT": line.port, "OPTIONS": {"pool": pool}}
    monkeypatch.setitem(connections.settings, "away", {**connection.settings_dict, **place})

    def ask(n: int) -> float:
        started = time.monotonic()
        try:
            with connections["away"].cursor() as cursor:
                cursor.execute("SELECT %s", [n])
        finally:
            connections["away"].close()
        return time.monotonic() - started

    def refused(n: int) -> float:
        started = time.monotonic()
        with pytest.raises(OperationalError, match="refused"):
            ask(n)
        return time.monotonic() - started

    try:
        ask(1)
        line.close()
        with ThreadPoolExecutor(6) as threads:
            assert max(threads.map(refused, range(6))) < 5
        line.open()
        assert ask(2) < 1
    finally:
        connections["away"].close_pool()
        del connections["away"]
