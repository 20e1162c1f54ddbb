"""A store follows a prefix of an object store, by the real client over a loopback S3 server."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from hashlib import md5
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rag import models
from rag.core import errors
from rag.services.connectors import SyncResult, connection_at
from tests.factories import StoreFactory
from tests.fakes.loopback import Fault
from tests.fakes.s3_server import ACCESS_KEY, S3Server
from tests.integration.connection_world import connect, sync_now
from tests.integration.move_world import OPERATOR

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "never-to-be-told-7731"


@pytest.fixture
def s3(settings: Any) -> Iterator[S3Server]:
    with S3Server(page=3) as server:
        keys = {"S3_ACCESS_KEY": ACCESS_KEY, "S3_SECRET_KEY": SECRET, "S3_SESSION_TOKEN": ""}
        where = {"S3_ENDPOINT": server.origin, "S3_REGION": "us-east-1", "TIMEOUT_S": 1.0}
        settings.RAG = settings.RAG | keys | where
        server.objects = {
            "man/a.txt": b"one",
            "man/b.txt": b"second",
            "man/sub/c.txt": b"the third",
            "man/d.txt": b"and a fourth",
            "manual/other.txt": b"not of the prefix",
        }
        yield server


def sync(store: models.Store, address: str = "s3://docs/man", **values: Any) -> SyncResult:
    return sync_now(connect(store, "s3", name="docs/man", address=address, tries=1), **values)


def told(result: SyncResult) -> list[str]:
    return [f"{path}: {reason}" for path, reason in result.failed]


def held(store: models.Store) -> dict[str, tuple[int, str]]:
    rows = store.files.filter(metadata__sync="docs/man")
    return {path: (pk, name) for path, pk, name in rows.values_list("metadata__path", "pk", "name")}


def test_all_pages_are_taken_and_nothing_is_fetched_twice(s3: S3Server) -> None:
    store = StoreFactory()
    done = sync(store)
    assert done.plan.new == ["a.txt", "b.txt", "d.txt", "sub/c.txt"]
    assert (done.failed, len(done.queued)) == ([], 4)
    assert {path: name for path, (_, name) in held(store).items()} == {
        "a.txt": "a.txt",
        "b.txt": "b.txt",
        "d.txt": "d.txt",
        "sub/c.txt": "c.txt",
    }
    file = store.files.get(name="c.txt")
    assert file.content.read() == b"the third"
    assert file.metadata["mark"] == md5(b"the third").hexdigest()
    assert s3.n_fetched() == 4
    assert [one.query["prefix"] for one in s3.calls if one.query] == ["man/", "man/"]
    again = sync(store)
    assert (again.plan.n_same, again.queued, s3.n_fetched()) == (4, [], 4)


def test_new_changed_renamed_and_deleted_objects_are_followed(s3: S3Server) -> None:
    store = StoreFactory()
    sync(store)
    before = held(store)
    s3.objects["man/a.txt"] = b"one, of another size"
    s3.objects["man/b.txt"] = b"SECOND"
    s3.objects["man/moved/c.txt"] = s3.objects.pop("man/sub/c.txt")
    del s3.objects["man/d.txt"]
    s3.objects["man/e.txt"] = b"a fifth one that is new"
    preview = sync(store, "s3://docs/man/", is_dry_run=True)
    assert held(store) == before
    done = sync(store)
    for plan in (preview.plan, done.plan):
        assert (plan.new, sorted(plan.changed)) == (["e.txt"], ["a.txt", "b.txt"])
        assert list(plan.renamed) == ["moved/c.txt"]
        assert [file.path for file in plan.deleted] == ["d.txt"]
    now = held(store)
    assert sorted(now) == ["a.txt", "b.txt", "e.txt", "moved/c.txt"]
    assert now["moved/c.txt"] == (before["sub/c.txt"][0], "c.txt")
    assert now["b.txt"] == before["b.txt"]
    assert store.files.get(name="b.txt").content.read() == b"SECOND"
    n = s3.n_fetched()
    assert (sync(store).plan.n_same, s3.n_fetched()) == (4, n)


def test_a_new_version_of_equal_bytes_is_read_once_and_known_then(s3: S3Server) -> None:
    store = StoreFactory()
    sync(store)
    # As after a copy, or an upload in parts: other ETags, the same bytes.
    for file in store.files.all():
        models.File.objects.filter(pk=file.pk).update(metadata={**file.metadata, "mark": "x-2"})
    n = s3.n_fetched()
    assert (sync(store).plan.n_same, s3.n_fetched()) == (4, n + 4)
    assert (sync(store).plan.n_same, s3.n_fetched()) == (4, n + 4)


def test_names_are_taken_as_they_are_and_lead_nowhere(s3: S3Server) -> None:
    store = StoreFactory()
    s3.objects = {
        "man/中文 说明+100%.txt": b"1",
        "man/a b&c?d#e.txt": b"22",
        "man/../../etc/up.txt": b"333",
        "man//double.txt": b"4444",
        "man/.hidden/x.txt": b"55555",
        "man/": b"",
        "man/sub/": b"",
        "man/<b>\u202ename.txt": b"666666",
    }
    done = sync(store)
    assert done.failed == []
    assert {path: name for path, (_, name) in held(store).items()} == {
        "中文 说明+100%.txt": "中文 说明+100%.txt",
        "a b&c?d#e.txt": "a b&c?d#e.txt",
        "../../etc/up.txt": "up.txt",
        "/double.txt": "double.txt",
        "<b>\u202ename.txt": "<b>name.txt",
    }
    assert all(
        str(file.content.name).startswith(f"stores/{store.pk}/") for file in store.files.all()
    )
    assert sync(store).plan.n_same == 5


def test_equal_bytes_are_one_file(s3: S3Server) -> None:
    store = StoreFactory()
    s3.objects = {"man/a.txt": b"same", "man/b.txt": b"same", "man/c.txt": b"diff"}
    assert sync(store).plan.duplicates == {"b.txt": "a.txt"}
    del s3.objects["man/a.txt"]
    assert list(sync(store).plan.renamed) == ["b.txt"]
    assert sorted(held(store)) == ["b.txt", "c.txt"]


def test_a_prefix_that_lost_much_is_refused_unless_forced(s3: S3Server) -> None:
    store = StoreFactory()
    sync(store)
    s3.objects = {}
    with pytest.raises(errors.ConflictError, match="4 of 4 files are missing from “s3://docs/man”"):
        sync(store)
    assert len(held(store)) == 4
    sync(store, is_forced=True)
    assert held(store) == {}


@pytest.mark.parametrize(
    "fault, said",
    [
        (Fault(403, b"<Error><Code>AccessDenied</Code></Error>"), "HTTP 403 (AccessDenied)"),
        (Fault(404, b"<Error><Code>NoSuchKey</Code></Error>"), "There is no “s3://docs/man/b.txt”"),
        (Fault(500, b"<html>oops"), "HTTP 500"),
        (Fault(cut="middle"), "could not be read: "),
        (Fault(cut="before"), "could not be read: "),
        (Fault(delay_s=5.0), "in time"),
    ],
)
def test_one_bad_object_stops_no_other(s3: S3Server, fault: Fault, said: str) -> None:
    store = StoreFactory()
    fault.on, fault.times = "b.txt", 1
    s3.fail(fault)
    done = sync(store)
    assert len(done.failed) == 1
    assert said in told(done)[0]
    assert SECRET not in told(done)[0] and ACCESS_KEY not in told(done)[0]
    assert sorted(held(store)) == ["a.txt", "d.txt", "sub/c.txt"]
    assert sync(store).plan.new == ["b.txt"]


def test_what_is_there_but_unreadable_is_not_deleted(s3: S3Server) -> None:
    store = StoreFactory()
    sync(store)
    s3.objects["man/b.txt"] = b"Second"
    s3.fail(Fault(500, on="b.txt", times=9))
    done = sync(store)
    assert list(done.plan.unread) == ["b.txt"]
    assert (done.plan.n_same, done.plan.deleted, len(held(store))) == (3, [], 4)
    assert store.files.get(name="b.txt").content.read() == b"second"


def test_too_large_ones_are_not_fetched(s3: S3Server, settings: Any) -> None:
    settings.RAG = settings.RAG | {"MAX_FILE_BYTES": 10}
    done = sync(StoreFactory())
    assert done.plan.new == ["a.txt", "b.txt", "sub/c.txt"]
    assert len(done.failed) == 1 and "“d.txt” is larger than" in told(done)[0]
    assert s3.n_fetched("d.txt") == 0


@pytest.mark.parametrize(
    "fault, kind, said",
    [
        (
            Fault(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>"),
            errors.ProviderError,
            "Check AWS_ACCESS_KEY_ID",
        ),
        (Fault(503, b"<Error><Code>SlowDown</Code></Error>"), errors.ProviderError, "SlowDown"),
        (Fault(200, b"<html>a portal"), errors.ProviderError, "HTTP 500"),
        (Fault(200, b"<html><b>a portal</b></html>"), errors.ProviderError, "no list"),
        (Fault(cut="middle"), errors.ProviderError, "HTTP 500"),
    ],
)
def test_a_list_that_breaks_off_deletes_nothing(
    s3: S3Server, fault: Fault, kind: type[Exception], said: str
) -> None:
    store = StoreFactory()
    sync(store)
    fault.on = "continuation-token"
    s3.fail(fault)
    with pytest.raises(kind, match=said):
        sync(store, is_forced=True)
    assert len(held(store)) == 4


def test_a_bucket_or_server_that_is_not_there_is_told(s3: S3Server, settings: Any) -> None:
    with pytest.raises(errors.NotFoundError, match="There is no “s3://nobody”"):
        sync(StoreFactory(), "s3://nobody")
    settings.RAG = settings.RAG | {"S3_ENDPOINT": "http://127.0.0.1:9"}
    with pytest.raises(errors.ProviderError, match="AWS_ENDPOINT_URL"):
        sync(StoreFactory())


def test_addresses_and_keys_are_checked_before_anything_is_asked(settings: Any) -> None:
    store = StoreFactory()

    def at(address: str) -> models.Connection:
        return connection_at(scope=OPERATOR, store=store, address=address)

    settings.RAG = settings.RAG | {"S3_ACCESS_KEY": "a", "S3_SECRET_KEY": "b"}
    for bad in ("s3://", "s3://key:secret@docs/man", "s3://docs/man?x=1"):
        with pytest.raises(errors.InvalidInputError, match="Write s3://bucket/prefix"):
            at(bad)
    with pytest.raises(errors.InvalidInputError, match="Name a folder"):
        at(" ")
    assert at("s3://docs/a/b/").name == "docs/a/b"
    assert at("s3://docs").name == "docs"
    settings.RAG = settings.RAG | {"S3_SECRET_KEY": ""}
    with pytest.raises(errors.ConfigurationError, match="AWS_SECRET_ACCESS_KEY"):
        sync_now(at("s3://docs"))


def test_the_command_tells_and_keeps_secrets(
    s3: S3Server, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    StoreFactory(slug="house")
    call_command("rag_sync", "s3://docs/man", "--store", "house", "--dry-run")
    assert capsys.readouterr().out.splitlines() == [
        "new: a.txt",
        "new: b.txt",
        "new: d.txt",
        "new: sub/c.txt",
        "4 new, 0 changed, 0 renamed, 0 deleted, 0 the same.",
    ]
    s3.fail(Fault(403, on="b.txt", times=9))
    with pytest.raises(CommandError, match="1 files could not be brought in"):
        call_command("rag_sync", "s3://docs/man", "--store", "house", "--no-wait")
    said = capsys.readouterr()
    assert "new: sub/c.txt" in said.out and "HTTP 403" in said.err
    assert SECRET not in said.out + said.err + caplog.text
