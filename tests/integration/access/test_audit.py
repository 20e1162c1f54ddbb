"""The audit: every change is told with who made it, whatever it came through, and cannot be undone."""

from __future__ import annotations

import contextvars
import io
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from agents import models as agent_models
from rag import models
from rag.core.errors import InvalidInputError
from rag.core.request_context import RequestContext, set_request
from rag.services.access import audit as audit_actor
from rag.services.access.api_keys import create_key, revoke_key
from rag.services.access.audit import purge_audit
from rag.services.access.rate_limits import count_key_call
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db
Entry = models.AuditEntry


def entries(kind: str, **only: Any) -> list[models.AuditEntry]:
    return list(Entry.objects.filter(kind=kind, **only).order_by("pk"))


def as_request(work: Callable[[], Any], **facts: Any) -> Any:
    """Do something as a request would that came from somebody."""

    def inside() -> Any:
        set_request(RequestContext(**facts))
        return work()

    return contextvars.copy_context().run(inside)


def sql(statement: str, *values: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else None


def test_who_changed_a_store_and_what_is_told() -> None:
    user, store = UserFactory(username="mei"), StoreFactory(name="Manuals")

    def change() -> None:
        store.max_tokens_per_chunk, store.is_public = 300, True
        store.save()

    as_request(change, edge="api", user_id=user.pk, key_id=7, address="10.0.0.9", id="req-12345")
    entry = entries("store", action="update")[-1]
    assert (entry.label, entry.object_id, entry.store_id) == ("Manuals", store.pk, store.pk)
    assert entry.before == {"max_tokens_per_chunk": 200, "is_public": False}
    assert entry.after == {"max_tokens_per_chunk": 300, "is_public": True}
    assert (entry.edge, entry.user_id, entry.username, entry.key_id) == ("api", user.pk, "mei", 7)
    assert (entry.address, entry.request) == ("10.0.0.9", "req-12345")
    assert timezone.now() - entry.at < timedelta(minutes=1)


def test_what_only_counts_is_no_change() -> None:
    store = StoreFactory()
    key = create_key(user=UserFactory(), name="app")[0]
    n = Entry.objects.count()
    models.Store.objects.update(n_chunks=5, sum_len=9)
    store.refresh_from_db()
    store.save()
    count_key_call(key_id=key.pk, limit=10)
    file = FileFactory(store=store)
    models.File.objects.update(
        progress={"share": 0.5}, status="processing", canonical_text="Words."
    )
    assert Entry.objects.count() == n + 1
    assert entries("file")[-1].after["name"] == file.name


def test_an_uploaded_text_and_its_chunks_are_not_in_it() -> None:
    file = FileFactory(metadata={"notes": "secret words " * 60})
    publish(file, "The reactor is sealed by Anna Kowalska.")
    chunk = models.Chunk.objects.get()
    assert entries("chunk") == []
    models.Chunk.objects.update(enabled=False)
    models.Chunk.objects.update(text="Other words of Anna", revision=2, origin="edited")
    off, edited = entries("chunk")
    assert (off.before, off.after) == ({"enabled": True}, {"enabled": False})
    assert edited.after == {"origin": "edited", "revision": 2} and edited.label == file.name
    chunk.file.delete()
    whole = json.dumps(list(Entry.objects.values("before", "after", "label")))
    assert "Anna" not in whole and "secret words" not in whole
    made = entries("file", action="insert")[-1]
    assert set(made.after["metadata"]) == {"length", "md5"}
    assert entries("file")[-1].action == "delete" and entries("chunk")[-1].action == "delete"


def test_keys_and_passwords_are_changed_and_never_shown() -> None:
    user = UserFactory()
    key, secret = create_key(user=user, name="app")
    user.set_password("correct horse battery")
    user.save()
    revoke_key(key=key)
    made, ended = entries("key")
    assert made.after["digest"] == "*** (new)" and made.after["name"] == "app"
    assert set(ended.after) == {"revoked_at"}
    changed = entries("user", action="update")[-1]
    assert (changed.before, changed.after) == ({"password": "***"}, {"password": "*** (new)"})
    user.refresh_from_db()
    whole = json.dumps(list(Entry.objects.values("before", "after")), default=str)
    for hidden in (secret, key.digest, user.password):
        assert hidden not in whole


def test_access_is_told_where_it_is_given_and_taken() -> None:
    store, group, user = StoreFactory(), GroupFactory(), UserFactory()
    file = FileFactory(store=store)
    store.reader_groups.add(group)
    file.restricted_to.add(group)
    user.groups.add(group)
    store.reader_groups.clear()
    given, taken = entries("store readers")
    assert given.after == {"store_id": store.pk, "group_id": group.pk} == taken.before
    assert (given.object_id, taken.action) == (store.pk, "delete")
    assert entries("file restriction")[0].object_id == file.pk
    assert entries("user groups")[-1].after["group_id"] == group.pk


def test_agents_flows_and_budgets_are_told_too() -> None:
    key = create_key(user=UserFactory(), name="app")[0]
    models.Budget.objects.create(key=key, max_tokens=5)
    models.Budget.objects.update(spent_tokens=3)
    agent = agent_models.Agent.objects.create(name="desk-audit")
    agent_models.Agent.objects.filter(pk=agent.pk).update(temperature=0.1)
    flow = agent_models.Flow.objects.create(name="flow-audit")
    agent_models.FlowVersion.objects.create(flow=flow, number=1, yaml="secret: text", digest="d")
    (budget,) = entries("budget")
    assert budget.after["max_tokens"] == 5
    assert set(entries("agent", label="desk-audit")[-1].after) == {"temperature"}
    (version,) = entries("flow version", object_id=flow.pk)
    assert "yaml" not in version.after and "digest" not in version.after


def test_who_acts_is_told_anew_after_a_rollback_and_for_each_request() -> None:
    store = StoreFactory()
    one, other = UserFactory(), UserFactory()

    def rename(name: str) -> None:
        models.Store.objects.filter(pk=store.pk).update(name=name)

    def undone() -> None:
        with transaction.atomic():
            rename("x")
            transaction.set_rollback(True)
        rename("first")

    as_request(undone, edge="admin", user_id=one.pk)
    as_request(lambda: rename("second"), edge="api", user_id=other.pk)
    rename("third")
    told = [(entry.after["name"], entry.user_id) for entry in entries("store", action="update")]
    assert told == [("first", one.pk), ("second", other.pk), ("third", None)]


def test_a_session_is_asked_for_its_user_only_where_something_is_written() -> None:
    asked = []
    user, store = UserFactory(), StoreFactory()

    def who() -> int:
        asked.append(1)
        return int(user.pk)

    def work() -> None:
        list(models.Store.objects.all())
        assert asked == []
        models.Store.objects.filter(pk=store.pk).update(name="by session")

    as_request(work, edge="admin", who=who)
    assert entries("store")[-1].username == user.username and asked == [1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["manage.py", "rag_reindex", "--store", "s"], ("command", "rag_reindex (uid ")),
        (["/x/manage.py", "procrastinate", "worker"], ("job", "worker")),
        (["/x/bin/uvicorn", "project.asgi:application"], ("", "")),
        ([], ("", "")),
    ],
)
def test_commands_and_jobs_are_told_by_their_process(
    words: list[str], told: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", words)
    audit_actor._process.cache_clear()
    try:
        StoreFactory()
        entry = entries("store")[-1]
        assert entry.edge == told[0] and entry.command.startswith(told[1])
    finally:
        audit_actor._process.cache_clear()


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit_entry SET username = 'x'", "DELETE FROM audit_entry", "TRUNCATE audit_entry"],
)
def test_nobody_changes_or_removes_an_entry(statement: str) -> None:
    StoreFactory()
    n = Entry.objects.count()
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        sql(statement)
    assert Entry.objects.count() == n > 0


def test_old_entries_are_forgotten_by_a_command_that_is_told() -> None:
    StoreFactory()
    n = Entry.objects.count()
    sql("INSERT INTO audit_entry (at, action, kind) VALUES (now() - interval '400 days', 'x', 'y')")
    before = timezone.now() - timedelta(days=365)
    assert purge_audit(before=before, is_dry=True) == 1
    assert purge_audit(before=before) == 1
    last = Entry.objects.order_by("-pk")[0]
    assert (last.action, last.kind, last.after) == ("forget", "audit", {"entries": 1})
    assert Entry.objects.count() == n + 1
    with pytest.raises(InvalidInputError, match="at least 30 days"):
        purge_audit(before=timezone.now() - timedelta(days=29))
    with pytest.raises(DatabaseError), transaction.atomic():
        sql("SELECT set_config('citable.audit_forget', 'on', true)")
        sql("UPDATE audit_entry SET username = 'x'")


def test_every_table_with_a_trigger_tells_who_acts() -> None:
    rows = sql(
        "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger WHERE tgname LIKE 'audit\\_%%'"
        " AND tgfoid::regproc::text <> 'audit_is_kept'"
    )
    assert {row[0] for row in rows} == {*audit_actor.TABLES, *audit_actor.user_tables()}


def test_the_command_forgets_what_it_is_told_to() -> None:
    sql("INSERT INTO audit_entry (at, action, kind) VALUES ('2020-05-05', 'x', 'y')")
    out = io.StringIO()
    call_command("rag_audit", "--forget-before", "2020-06-01", "--dry-run", stdout=out)
    call_command("rag_audit", "--forget-before", "2020-06-01", stdout=out)
    assert out.getvalue() == "1 entries would be forgotten\n1 entries are forgotten\n"
    with pytest.raises(CommandError, match="at least 30 days"):
        call_command("rag_audit", "--forget-before", "2999-01-01")
