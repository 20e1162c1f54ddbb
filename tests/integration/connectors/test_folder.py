"""A store follows a folder: by hashes, with a guard, and nothing else of the store is touched."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from rag import models
from rag.core.connectors import KnownDocument, OriginDocument
from rag.core.deadline import Deadline
from rag.core.errors import ConflictError, NotFoundError, ProviderError
from rag.plugins.connectors.folder import FolderConnector
from rag.services.connectors import run_sync_job, start_due_syncs, start_sync
from rag.services.connectors.context import SyncContext
from rag.services.connectors.plan import plan_sync
from rag.services.connectors.sync import SyncActions
from tests.factories import FileFactory, StoreFactory
from tests.integration.connection_world import connect, errors_of, outcome, places, sync_now
from tests.integration.move_world import OPERATOR

pytestmark = pytest.mark.django_db(transaction=True)
NAMES = st.sampled_from(["a", "b", "c", "d/e"])
FOLDERS = st.dictionaries(NAMES, st.sampled_from(["1", "2", "3", "4"]))


def fill(folder: Path, **contents: str) -> None:
    for name, content in contents.items():
        path = folder / name.replace("__", "/").replace("_txt", ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def sync(store: models.Store, folder: Path, **values: Any) -> dict[str, Any]:
    return outcome(sync_now(connect(store, "folder", folder=str(folder)), **values))


NOTHING: dict[str, Any] = {
    "new": [],
    "changed": [],
    "renamed": [],
    "deleted": [],
    "failed": [],
    "duplicates": {},
}


def test_new_changed_renamed_and_deleted_files_are_followed(tmp_path: Path) -> None:
    store = StoreFactory()
    other = FileFactory(store=store)
    fill(tmp_path, a_txt="one", b_txt="two", sub__c_txt="three", d_txt="four")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "link.txt").symlink_to("/etc/hostname")
    assert sync(store, tmp_path)["new"] == ["a.txt", "b.txt", "d.txt", "sub/c.txt"]
    ids = dict(store.files.values_list("name", "pk"))
    assert sync(store, tmp_path) == {**NOTHING, "same": 4}
    fill(tmp_path, a_txt="one more")
    (tmp_path / "b.txt").rename(tmp_path / "sub" / "beta.txt")
    (tmp_path / "d.txt").unlink()
    fill(tmp_path, e_txt="five")
    assert sync(store, tmp_path) == {
        **NOTHING,
        "new": ["e.txt"],
        "changed": ["a.txt"],
        "renamed": ["sub/beta.txt"],
        "deleted": ["d.txt"],
        "same": 1,
    }
    assert places(store) == {
        "a.txt": "a.txt",
        "sub/beta.txt": "beta.txt",
        "sub/c.txt": "c.txt",
        "e.txt": "e.txt",
    }
    now = dict(store.files.values_list("name", "pk"))
    assert (now["a.txt"], now["beta.txt"]) == (ids["a.txt"], ids["b.txt"])
    assert store.files.filter(pk=other.pk).exists()
    assert sync(store, tmp_path) == {**NOTHING, "same": 4}


def test_contents_that_trade_places_are_renames(tmp_path: Path) -> None:
    store = StoreFactory()
    fill(tmp_path, a_txt="one", b_txt="two")
    sync(store, tmp_path)
    ids = dict(store.files.values_list("name", "pk"))
    fill(tmp_path, a_txt="two", b_txt="one")
    assert sync(store, tmp_path)["renamed"] == ["a.txt", "b.txt"]
    now = dict(store.files.values_list("name", "pk"))
    assert now == {"a.txt": ids["b.txt"], "b.txt": ids["a.txt"]}
    assert sync(store, tmp_path)["same"] == 2


def test_equal_bytes_twice_are_one_file_and_its_second_place_is_kept(tmp_path: Path) -> None:
    store = StoreFactory()
    fill(tmp_path, a_txt="one", b_txt="one")
    assert sync(store, tmp_path)["duplicates"] == {"b.txt": "a.txt"}
    (tmp_path / "a.txt").unlink()
    assert sync(store, tmp_path)["renamed"] == ["b.txt"]
    assert places(store) == {"b.txt": "b.txt"}


def test_a_folder_that_lost_much_is_refused_unless_forced(tmp_path: Path) -> None:
    store = StoreFactory()
    fill(tmp_path, **{f"f{i}_txt": f"text {i}" for i in range(20)})
    sync(store, tmp_path)
    for i in range(6):
        (tmp_path / f"f{i}.txt").unlink()
    with pytest.raises(ConflictError, match="6 of 20 files are missing"):
        sync(store, tmp_path)
    assert store.files.count() == 20
    assert len(sync(store, tmp_path, is_dry_run=True)["deleted"]) == 6
    sync(store, tmp_path, is_forced=True)
    assert store.files.count() == 14
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(ConflictError, match="14 of 14"):
        sync(store, tmp_path)


def test_few_files_may_go_but_never_the_last_ones(tmp_path: Path) -> None:
    store = StoreFactory()
    fill(tmp_path, a_txt="one", b_txt="two")
    sync(store, tmp_path)
    (tmp_path / "a.txt").unlink()
    sync(store, tmp_path)
    (tmp_path / "b.txt").unlink()
    with pytest.raises(ConflictError):
        sync(store, tmp_path)
    with pytest.raises(NotFoundError, match="no folder"):
        sync(store, tmp_path / "gone")
    assert store.files.count() == 1


def test_what_the_store_had_from_elsewhere_is_told_and_stops_nobody(tmp_path: Path) -> None:
    store = StoreFactory()
    fill(tmp_path, a_txt="one")
    sync_now(connect(store, "folder", name="elsewhere", folder=str(tmp_path)))
    fill(tmp_path, b_txt="two")
    done = sync(store, tmp_path)
    assert len(done["failed"]) == 1
    assert "has these bytes already" in done["failed"][0]
    assert places(store) == {"b.txt": "b.txt"}


@given(before=FOLDERS, there=FOLDERS)
def test_a_plan_brings_any_folder_to_any_other(
    before: dict[str, str], there: dict[str, str]
) -> None:
    by_hash: dict[str, str] = {}
    for path, digest in sorted(before.items()):
        by_hash.setdefault(digest, path)
    known = [KnownDocument(n, path, digest) for n, (digest, path) in enumerate(by_hash.items())]
    plan = plan_sync(there=there, known=known)
    files = {file.file_id: (file.path, file.sha256) for file in known}
    for path, file in plan.renamed.items():
        files[file.file_id] = (path, file.sha256)
    for file in plan.deleted:
        del files[file.file_id]
    for path, file_id in plan.changed.items():
        assert files[file_id][0] == path
        files[file_id] = (path, there[path])
    for n, path in enumerate(plan.new, start=1000):
        files[n] = (path, there[path])
    assert len({digest for _, digest in files.values()}) == len(files)
    kept = dict(files.values())
    assert {digest: there[path] for path, digest in kept.items()} == {d: d for d in there.values()}
    assert set(kept) | set(plan.duplicates) == set(there)
    assert plan.n_known == len(known)


def test_a_file_that_somebody_deletes_meanwhile_is_told_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StoreFactory()
    fill(tmp_path, a_txt="one", b_txt="two", c_txt="three")
    sync(store, tmp_path)
    (tmp_path / "a.txt").rename(tmp_path / "x.txt")
    fill(tmp_path, b_txt="two more", d_txt="four")

    listing = FolderConnector.list

    def deleting(self: FolderConnector, context: Any) -> Any:
        """Deletes the store's files when it is read, after the store has been looked at."""
        found = list(listing(self, context))
        store.files.filter(name__in=("a.txt", "b.txt")).delete()
        return iter(found)

    with monkeypatch.context() as patched:
        patched.setattr(FolderConnector, "list", deleting)
        done = sync(store, tmp_path)
    assert [line.partition(": ")[0] for line in done["failed"]] == ["a.txt → x.txt", "b.txt"]
    assert all("was deleted meanwhile" in line for line in done["failed"])
    assert places(store) == {"c.txt": "c.txt", "d.txt": "d.txt"}
    again = sync(store, tmp_path)
    assert (again["new"], again["failed"]) == (["b.txt", "x.txt"], [])


def test_a_mark_of_a_file_that_was_deleted_meanwhile_is_not_kept(tmp_path: Path) -> None:
    store = StoreFactory()
    connector = FolderConnector(FolderConnector.Options(folder=str(tmp_path)))
    deeds = SyncActions(store, connector, None, "docs")  # type: ignore[arg-type]
    deeds.mark(999_999, OriginDocument("a.txt", 3, "v2"))
    file = FileFactory(store=store, metadata={"sync": "docs", "path": "a.txt", "mark": "v1"})
    deeds.mark(file.pk, OriginDocument("a.txt", 3, "v2"))
    file.refresh_from_db()
    assert file.metadata == {"sync": "docs", "path": "a.txt", "mark": "v2"}


def test_a_folder_that_cannot_be_read_whole_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StoreFactory()
    fill(tmp_path, a_txt="one", sub__b_txt="two")
    sync(store, tmp_path)
    listed = Path.iterdir

    def closed(folder: Path) -> Any:
        if folder.name == "sub":
            raise PermissionError(13, "Permission denied", str(folder))
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", closed)
    with pytest.raises(ProviderError, match="sub” cannot be read: Permission denied"):
        sync(store, tmp_path)
    assert set(places(store)) == {"a.txt", "sub/b.txt"}


def test_a_document_that_goes_while_the_folder_is_listed_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StoreFactory()
    fill(tmp_path, a_txt="one", b_txt="two")
    is_file = Path.is_file

    def going(path: Path) -> bool:
        was = is_file(path)
        if path.name == "a.txt" and was:
            path.unlink()
        return was

    monkeypatch.setattr(Path, "is_file", going)
    assert sync(store, tmp_path)["new"] == ["b.txt"]


def test_links_lead_to_the_origin_and_groups_follow_it(tmp_path: Path) -> None:
    store = StoreFactory()
    fill(tmp_path, open_txt="one", sub__closed_txt="two")
    closed = tmp_path / "sub" / "closed.txt"
    closed.chmod(0o640)
    group = closed.group()
    connection = connect(
        store,
        "folder",
        folder=str(tmp_path),
        link_base="https://files.example.org/a b/",
        uses_permissions=True,
    )
    sync_now(connection)
    rows = {file.name: file for file in store.files.all()}
    assert rows["closed.txt"].origin_url == "https://files.example.org/a b/sub/closed.txt"
    assert [one.name for one in rows["closed.txt"].restricted_to.all()] == [group]
    assert list(rows["open.txt"].restricted_to.all()) == []
    (tmp_path / "open.txt").chmod(0o640)
    closed.chmod(0o644)
    assert sync_now(connection).plan.n_same == 2
    assert [one.name for one in rows["open.txt"].restricted_to.all()] == [group]
    assert list(rows["closed.txt"].restricted_to.all()) == []
    run = connection.runs.first()
    assert run is not None and run.counts == {"restricted": 2, "same": 2}


def test_only_listed_folders_are_followed_by_others_than_commands(
    tmp_path: Path, settings: Any
) -> None:
    store = StoreFactory()
    fill(tmp_path, a__x_txt="one")
    (tmp_path / "b").symlink_to("/etc")
    settings.RAG = settings.RAG | {"SYNC_FOLDERS": (str(tmp_path),)}
    for folder, is_allowed in (("a", True), ("b", False), ("..", False)):
        connection = connect(store, "folder", folder=str(tmp_path / folder))
        run_sync_job(run_id=start_sync(scope=OPERATOR, connection=connection).pk)
        run = connection.runs.first()
        assert run is not None
        assert run.state == ("done" if is_allowed else "failed"), folder
        assert is_allowed or "RAG_SYNC_FOLDERS" in errors_of(connection)


def test_a_sync_whose_time_is_over_is_told_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StoreFactory()
    fill(tmp_path, a_txt="one", b_txt="two")
    connection = connect(store, "folder", folder=str(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(SyncContext, "renew", lambda self: setattr(self, "deadline", Deadline(0.0)))
        sync_now(connection)
    run = connection.runs.first()
    assert run is not None
    assert (run.state, store.files.count()) == ("done", 0)
    assert "no answer within" in errors_of(connection)
    assert outcome(sync_now(connection))["new"] == ["a.txt", "b.txt"]


def test_schedules_start_what_is_due_once_and_end_what_was_lost(tmp_path: Path) -> None:
    connection = connect(StoreFactory(), "folder", folder=str(tmp_path))
    rows = models.Connection.objects.filter(pk=connection.pk)
    assert start_due_syncs() == 0
    rows.update(schedule="1h", next_run_at=timezone.now() - timedelta(minutes=1))
    assert (start_due_syncs(), start_due_syncs()) == (1, 0)
    run = connection.runs.get()
    assert (run.state, run.trigger) == ("waiting", "schedule")
    long_ago = timezone.now() - timedelta(hours=1)
    models.SyncRun.objects.update(state="running", seen_at=long_ago)
    rows.update(next_run_at=long_ago)
    assert start_due_syncs() == 1
    assert [one.state for one in connection.runs.all()] == ["waiting", "failed"]
