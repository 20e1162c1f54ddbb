"""Limits a minute: exact when many count at once, renewed, and without traces that pile up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections
from django.utils import timezone

from rag import models
from rag.models.api_key import RequestWindow
from rag.providers.postgres.db.rate_windows import count_subject_request
from rag.services.access.api_keys import create_key
from rag.services.access.rate_limits import (
    RateLimit,
    count_failed_call,
    count_key_call,
    count_user_call,
)
from tests.factories import UserFactory


def new_key(limit: int = 3) -> models.ApiKey:
    return create_key(user=UserFactory(), name="k", requests_per_minute=limit)[0]


def at_once(n: int, count: Any) -> list[RateLimit]:
    def one(_: int) -> RateLimit:
        try:
            return count()  # type: ignore[no-any-return]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, range(n)))


@pytest.mark.django_db
def test_a_key_is_counted_to_its_limit_and_no_further() -> None:
    key = new_key()
    quotas = [count_key_call(key_id=key.pk, limit=3) for _ in range(5)]
    assert [quota.remaining for quota in quotas] == [2, 1, 0, 0, 0]
    assert [quota.is_exceeded for quota in quotas] == [False, False, False, True, True]
    assert all(1 <= quota.reset_s <= 60 for quota in quotas)


@pytest.mark.django_db
def test_a_window_ends_a_minute_after_its_first_request() -> None:
    key = new_key()
    for _ in range(4):
        count_key_call(key_id=key.pk, limit=3)
    rows = models.ApiKey.objects.filter(pk=key.pk)
    rows.update(window_started_at=timezone.now() - timedelta(seconds=30))
    assert count_key_call(key_id=key.pk, limit=3).is_exceeded
    assert count_key_call(key_id=key.pk, limit=3).reset_s <= 30
    rows.update(window_started_at=timezone.now() - timedelta(seconds=61))
    assert count_key_call(key_id=key.pk, limit=3) == RateLimit(3, 1, 60)


@pytest.mark.django_db
def test_keys_do_not_share_a_window() -> None:
    one, other = new_key(), new_key()
    for _ in range(4):
        count_key_call(key_id=one.pk, limit=3)
    assert count_key_call(key_id=other.pk, limit=3).remaining == 2


@pytest.mark.django_db
def test_the_last_use_is_written_at_most_once_a_minute() -> None:
    key = new_key(100)
    used: list[Any] = []
    for _ in range(3):
        count_key_call(key_id=key.pk, limit=100)
        used.append(models.ApiKey.objects.get(pk=key.pk).last_used_at)
    assert used[0] == used[1] == used[2]
    old = timezone.now() - timedelta(seconds=61)
    models.ApiKey.objects.filter(pk=key.pk).update(last_used_at=old)
    count_key_call(key_id=key.pk, limit=100)
    last = models.ApiKey.objects.get(pk=key.pk).last_used_at
    assert last is not None
    assert last > old + timedelta(seconds=60)


@pytest.mark.django_db
def test_a_key_that_is_gone_counts_nothing() -> None:
    assert not count_key_call(key_id=10**9, limit=1).is_exceeded


@pytest.mark.django_db(transaction=True)
def test_many_at_once_get_exactly_the_limit() -> None:
    key = new_key()
    quotas = at_once(60, lambda: count_key_call(key_id=key.pk, limit=25))
    assert sorted(quota.used for quota in quotas) == list(range(1, 61))
    assert sum(not quota.is_exceeded for quota in quotas) == 25


@pytest.mark.django_db(transaction=True)
def test_users_and_addresses_are_counted_exactly_too(settings: Any) -> None:
    settings.RAG = {
        **settings.RAG,
        "API_REQUESTS_PER_MINUTE": 10,
        "API_FAILURES_PER_MINUTE": 5,
    }
    quotas = at_once(40, lambda: count_user_call(user_id=7))
    assert sorted(quota.used for quota in quotas) == list(range(1, 41))
    assert sum(not quota.is_exceeded for quota in quotas) == 10
    failures = at_once(20, lambda: count_failed_call(address="192.0.2.1"))
    assert sum(not quota.is_exceeded for quota in failures) == 5
    assert not count_user_call(user_id=8).is_exceeded


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("one", "other", "are_one"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("fe80::1%eth0", "fe80::2", True),
        ("", "nonsense", True),
    ],
)
def test_an_address_is_what_one_customer_has(one: str, other: str, are_one: bool) -> None:
    count_failed_call(address=one)
    assert (count_failed_call(address=other).used == 2) == are_one


@pytest.mark.django_db
def test_a_window_of_a_subject_ends_too() -> None:
    for _ in range(3):
        count_subject_request("user:1")
    RequestWindow.objects.update(started_at=timezone.now() - timedelta(seconds=61))
    n_requests, left_s = count_subject_request("user:1")
    assert n_requests == 1
    assert 59 < left_s <= 60


@pytest.mark.django_db
@pytest.mark.parametrize("plan", ["", "hashjoin, mergejoin, hashagg, sort, material"])
def test_forgotten_subjects_are_removed(plan: str) -> None:
    with connection.cursor() as cursor:
        for kind in filter(None, plan.split(", ")):
            cursor.execute(f"SET LOCAL enable_{kind} = off")
    old = timezone.now() - timedelta(hours=1)
    RequestWindow.objects.bulk_create(
        RequestWindow(subject=f"failed:{n}", started_at=old, n_requests=1) for n in range(150)
    )
    count_subject_request("user:1")
    assert RequestWindow.objects.count() == 51
    count_subject_request("user:1")
    assert RequestWindow.objects.count() == 51
    count_subject_request("user:2")
    assert RequestWindow.objects.count() == 2


@pytest.mark.django_db
def test_the_counters_table_is_not_logged() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relpersistence FROM pg_class WHERE relname = 'rag_requestwindow'")
        assert cursor.fetchone()[0] == "u"
