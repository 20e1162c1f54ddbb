"""The ledger and budgets as applications meet them: sums of what one may see, clear refusals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from rag import models
from rag.admin.operations import usage as desk
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.services.access.api_keys import create_key
from rag.services.usage.budgets import save_budget
from rag.services.usage.report import UsageQuery, run_calls, usage_report
from tests.edges.admin_client import at, client_of, page, use_words_embedder
from tests.edges.api_client import KeyClient, client_for, error_of, ok
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.fakes.openai_server import OpenAIServer

pytestmark = pytest.mark.django_db
USAGE, ASK = "/api/usage", "/api/rag/ask"
MODEL = "openai_compatible:qwen3"


def record(**values: Any) -> models.UsageRecord:
    given = {
        "kind": "ask",
        "provider": "p",
        "model": "m",
        "input_tokens": 10,
        "output_tokens": 5,
        **values,
    }
    days = given.pop("days_ago", 0)
    row = models.UsageRecord.objects.create(**given)
    models.UsageRecord.objects.filter(pk=row.pk).update(
        created_at=timezone.now() - timedelta(days=days)
    )
    return row


@pytest.fixture
def server(
    monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> Iterator[OpenAIServer]:
    use_words_embedder(monkeypatch, settings)
    with OpenAIServer() as server:
        settings.RAG = {
            **settings.RAG,
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "k",
            "CHAT_MODEL": MODEL,
            "PRICES": {MODEL: {"input": 1000, "output": 1000}},
        }
        yield server


def whole(since_days: int = 3, **values: Any) -> UsageQuery:
    now = timezone.now()
    return UsageQuery(now - timedelta(days=since_days), now + timedelta(days=1), **values)


def test_groups_and_their_sum_are_read_but_once() -> None:
    user = UserFactory()
    for currency, cost in (("USD", "0.1"), ("USD", "0.2"), ("EUR", "4"), ("", None)):
        record(user=user, currency=currency, cost=None if cost is None else Decimal(cost))
    record(user=user, model="free")
    with CaptureQueriesContext(connection) as captured:
        told = usage_report(question=whole(by=["model"]), scope=Scope.operator())
    assert len(captured) == 1
    free, paid = told["rows"]
    assert (paid["model"], paid["calls"], paid["unpriced_calls"]) == ("m", 4, 1)
    # Added as decimals: a third is lost in none.
    assert paid["cost"] == {"USD": 0.3, "EUR": 4.0}
    assert (free["model"], free["calls"], free["cost"]) == ("free", 1, {})
    assert told["total"] == {
        "calls": 5,
        "input_tokens": 50,
        "output_tokens": 25,
        "unpriced_calls": 2,
        "estimated_calls": 0,
        "cost": {"USD": 0.3, "EUR": 4.0},
    }


def test_no_calls_add_up_to_nothing() -> None:
    told = usage_report(question=whole(), scope=Scope.operator())
    assert told["rows"] == []
    assert (told["total"]["calls"], told["total"]["cost"]) == (0, {})


def test_sums_are_by_group_with_unknown_prices_apart() -> None:
    user = UserFactory(username="mei")
    record(user=user, cost=Decimal("0.25"), currency="USD")
    record(user=user, cost=Decimal("0.5"), currency="EUR", model="other")
    record(user=user, is_estimated=True)
    told = ok(client_for(user).send("get", f"{USAGE}?by=model,user"))
    assert told["rows"] == [
        {
            "model": "m",
            "user": "mei",
            "calls": 2,
            "input_tokens": 20,
            "output_tokens": 10,
            "unpriced_calls": 1,
            "estimated_calls": 1,
            "cost": {"USD": 0.25},
        },
        {
            "model": "other",
            "user": "mei",
            "calls": 1,
            "input_tokens": 10,
            "output_tokens": 5,
            "unpriced_calls": 0,
            "estimated_calls": 0,
            "cost": {"EUR": 0.5},
        },
    ]
    assert told["total"]["cost"] == {"USD": 0.25, "EUR": 0.5} and told["total"]["calls"] == 3


def test_one_sees_ones_own_and_ones_keys_calls_and_operators_see_all() -> None:
    user, other, boss = UserFactory(), UserFactory(), UserFactory(is_superuser=True)
    key = create_key(user=user, name="app")[0]
    for who in (user, other, None):
        record(user=who)
    record(key=key)
    assert ok(client_for(user).send("get", USAGE))["total"]["calls"] == 2
    assert ok(client_for(other).send("get", f"{USAGE}?user={user.username}"))["total"]["calls"] == 0
    assert ok(client_for(boss).send("get", USAGE))["total"]["calls"] == 4
    store = StoreFactory(is_public=True)
    narrow = client_for(user, stores=[store])
    assert ok(narrow.send("get", USAGE))["total"]["calls"] == 0
    assert ok(client_of(user).get(USAGE))["total"]["calls"] == 2
    assert error_of(KeyClient().get(USAGE), 401)
    assert models.UsageRecord.objects.readable(Scope.anonymous()).count() == 0


def test_times_and_filters_limit_what_is_summed() -> None:
    user = UserFactory()
    client, store = client_for(user), StoreFactory(slug="manuals")
    record(user=user, store=store, run="r1", agent="desk")
    record(user=user, days_ago=40)
    today = timezone.localdate()
    assert ok(client.send("get", f"{USAGE}?since={today}&until={today}"))["total"]["calls"] == 1
    old = today - timedelta(days=40)
    days = ok(client.send("get", f"{USAGE}?since={old}&by=day"))["rows"]
    assert [row["day"] for row in days] == [str(old), str(today)]
    for name, value in {"store": "manuals", "run": "r1", "agent": "desk", "kind": "ask"}.items():
        assert ok(client.send("get", f"{USAGE}?{name}={value}"))["total"]["calls"] == 1
        assert ok(client.send("get", f"{USAGE}?{name}=zzz"))["total"]["calls"] == 0
    assert "group of usage" in error_of(client.send("get", f"{USAGE}?by=year"), 400)["message"]
    error_of(client.send("get", f"{USAGE}?color=red"), 400)
    error_of(client.send("get", f"{USAGE}?key=mine"), 422)
    error_of(client.send("get", f"{USAGE}?since={today}&until={old}"), 400)
    error_of(client.send("get", f"{USAGE}?since=yesterday"), 422)


def test_a_report_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag.services.usage.report.MAX_ROWS", 1)
    record(model="a")
    record(model="b")
    with pytest.raises(InvalidInputError, match="more than 1 rows"):
        usage_report(question=whole(by=["model"]), scope=Scope.operator())


def test_the_calls_of_a_run_are_listed_in_order() -> None:
    first, second = record(run="r"), record(run="r", kind="rerank", cost=Decimal("0.1"))
    record(run="s")
    told = run_calls(run="r", scope=Scope.operator())
    assert [one["kind"] for one in told] == [first.kind, second.kind]
    assert [one["cost"] for one in told] == [None, 0.1]


def test_a_key_whose_budget_is_used_up_gets_429_and_when_it_begins_anew(
    server: OpenAIServer,
) -> None:
    user = UserFactory()
    store = StoreFactory(owner=user, slug="manuals")
    publish(FileFactory(store=store), "The warranty of the pump lasts two years.")
    key, secret = create_key(user=user, name="app")
    save_budget(budget=models.Budget(key=key, period="month", max_tokens=5))
    client, body = KeyClient(secret), {"query": "How long?", "stores": ["manuals"]}
    ok(client.send("post", ASK, body))
    row = models.UsageRecord.objects.get(kind="ask")
    assert (row.key, row.user, row.store) == (key, user, store)
    refused = client.send("post", ASK, body)
    error = error_of(refused, 429)
    assert error["message"] == "This key's budget of 5 tokens a month is used up."
    assert error["hint"].startswith("It begins anew at 20")
    assert 0 < int(refused["Retry-After"]) <= 31 * 86400
    assert len([call for call in server.calls if call.path.endswith("completions")]) == 1
    # Another key of the same person goes on.
    ok(client_for(user).send("post", ASK, body))


def test_a_new_budget_counts_what_was_used_already() -> None:
    key = create_key(user=UserFactory(), name="app")[0]
    record(key=key, cost=Decimal("0.4"), currency="USD")
    record(key=key, days_ago=40)
    made = save_budget(budget=models.Budget(key=key, max_tokens=100, currency="usd"))
    assert (made.spent_tokens, made.spent_cost, made.currency) == (15, Decimal("0.4"), "USD")
    for wrong in ({}, {"max_cost": 1, "currency": "Euro"}):
        with pytest.raises(InvalidInputError):
            save_budget(budget=models.Budget(key=key, period="day", **wrong))


def test_the_admin_shows_sums_and_only_what_one_may_see() -> None:
    user = UserFactory(username="mei", permissions=("view_usagerecord", "view_budget"))
    record(user=user, model="my-model", cost=Decimal("0.25"), currency="USD")
    record(model="foreign-model", user=UserFactory())
    told = page(client_of(user), "rag_usagerecord_changelist")
    assert "my-model" in told and "0.2500 USD" in told and "foreign-model" not in told
    key = create_key(user=UserFactory(), name="foreign key")[0]
    save_budget(budget=models.Budget(key=key, max_tokens=7))
    assert "foreign key" not in page(client_of(user), "rag_budget_changelist")
    assert client_of(user).get(at("rag_budget_add")).status_code == 403
    boss = client_of(UserFactory(is_superuser=True))
    data = {"key": key.pk, "period": "day", "max_tokens": "", "max_cost": "2", "currency": "eur"}
    assert boss.post(at("rag_budget_add"), data).status_code == 302
    made = models.Budget.objects.get(period="day")
    assert (made.max_cost, made.currency) == (2, "EUR")
    data["max_cost"] = ""
    assert "Set tokens, money, or both." in boss.post(at("rag_budget_add"), data).content.decode()


def test_the_audit_in_the_admin_is_read_only_and_scoped() -> None:
    keeper = UserFactory(permissions=("view_auditentry",))
    mine = StoreFactory(owner=keeper, name="Mine")
    StoreFactory(name="Foreign")
    told = page(client_of(keeper), "rag_auditentry_changelist")
    assert "Mine" in told and "Foreign" not in told
    boss = client_of(UserFactory(is_superuser=True))
    assert "Foreign" in page(boss, "rag_auditentry_changelist", kind="store")
    entry = models.AuditEntry.objects.filter(kind="store", object_id=mine.pk)[0]
    assert "&quot;name&quot;: &quot;Mine&quot;" in page(boss, "rag_auditentry_change", entry.pk)
    assert boss.get(at("rag_auditentry_add")).status_code == 403
    assert boss.post(at("rag_auditentry_delete", entry.pk)).status_code == 403


@pytest.mark.parametrize(
    "days", ["until=9999-12-31", "since=0001-01-01", "since=0001-01-01&until=9999-12-31"]
)
def test_the_first_and_the_last_day_there_are_may_be_asked_for(days: str) -> None:
    user = UserFactory()
    record(user=user)
    told = ok(client_for(user).get(f"{USAGE}?{days}&by=kind"))
    assert [row["calls"] for row in told["rows"]] == [1]


@pytest.mark.parametrize("name", ["provider", "model", "kind", "agent", "user", "store", "run"])
def test_a_filter_that_postgres_cannot_hold_is_told_beside_its_name(name: str) -> None:
    error = error_of(client_for(UserFactory()).get(f"{USAGE}?{name}=a%00b"), 422)
    assert list(error["fields"]) == [name]


def test_the_desk_offers_the_providers_of_the_newest_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in ("old", "b", "a"):
        record(provider=provider)
    monkeypatch.setattr(desk, "N_NEWEST", 2)
    client = client_of(UserFactory(is_superuser=True))
    with CaptureQueriesContext(connection) as captured:
        shown = client.get(at("rag_usagerecord_changelist"))
    filters = [one for one in shown.context["cl"].filter_specs if one.title == "provider"]
    assert [one.lookup_choices for one in filters] == [[("a", "a"), ("b", "b")]]
    assert not any("DISTINCT" in one["sql"] for one in captured.captured_queries)
    for provider, n in (("old", 1), ("a", 1), ("nobody", 0)):
        rows = client.get(at("rag_usagerecord_changelist", provider=provider)).context["cl"]
        assert rows.result_count == n, provider


def test_the_desk_s_sums_take_a_query_each() -> None:
    for _ in range(3):
        record(user=UserFactory())
    client = client_of(UserFactory(is_superuser=True))
    with CaptureQueriesContext(connection) as captured:
        client.get(at("rag_usagerecord_changelist"))
    summed = [one["sql"] for one in captured.captured_queries if "SUM(" in one["sql"]]
    assert len(summed) == 3
    assert len(captured) <= 12
