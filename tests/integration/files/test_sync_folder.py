"""A store follows a folder: by hashes, with a guard, and nothing else of the store is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag import models
from rag.core.errors import ConflictError, NotFoundError, ProviderError
from rag.core.origins import OriginDocument
from rag.providers.origins.folder import FolderOrigin
from rag.services.files.sync import KnownFile, SyncActions, plan_sync, preview_sync, sync_files
from tests.factories import FileFactory, StoreFactory
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
    done = sync_files(
        scope=OPERATOR, store=store, origin=FolderOrigin(folder), label="docs", **values
    )
    plan = done.plan
    return {
        "new": plan.new,
        "changed": list(plan.changed),
        "renamed": list(plan.renamed),
        "deleted": [file.path for file in plan.deleted],
        "failed": list(done.failed),
        "duplicates": plan.duplicates,
        "same": plan.n_same,
    }


def paths(store: models.Store) -> dict[str, str]:
    rows = store.files.filter(metadata__sync="docs").values_list("metadata__path", "name")
    return dict(rows)


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
    assert paths(store) == {
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
    assert paths(store) == {"b.txt": "b.txt"}


def test_a_folder_that_lost_much_is_refused_unless_forced(tmp_path: Path) -> None:
    store = StoreFactory()
    fill(tmp_path, **{f"f{i}_txt": f"text {i}" for i in range(20)})
    sync(store, tmp_path)
    for i in range(6):
        (tmp_path / f"f{i}.txt").unlink()
    with pytest.raises(ConflictError, match="6 of 20 files are missing"):
        sync(store, tmp_path)
    assert store.files.count() == 20
    assert len(preview_sync(store=store, origin=FolderOrigin(tmp_path), label="docs").deleted) == 6
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
    sync_files(scope=OPERATOR, store=store, origin=FolderOrigin(tmp_path), label="elsewhere")
    fill(tmp_path, b_txt="two")
    done = sync(store, tmp_path)
    assert len(done["failed"]) == 1
    assert "has these bytes already" in done["failed"][0]
    assert paths(store) == {"b.txt": "b.txt"}


@given(before=FOLDERS, there=FOLDERS)
def test_a_plan_brings_any_folder_to_any_other(
    before: dict[str, str], there: dict[str, str]
) -> None:
    by_hash: dict[str, str] = {}
    for path, digest in sorted(before.items()):
        by_hash.setdefault(digest, path)
    known = [KnownFile(n, path, digest) for n, (digest, path) in enumerate(by_hash.items())]
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


def test_a_file_that_somebody_deletes_meanwhile_is_told_and_stops_nobody(tmp_path: Path) -> None:
    store = StoreFactory()
    fill(tmp_path, a_txt="one", b_txt="two", c_txt="three")
    sync(store, tmp_path)
    (tmp_path / "a.txt").rename(tmp_path / "x.txt")
    fill(tmp_path, b_txt="two more", d_txt="four")

    class Deleting(FolderOrigin):
        """Deletes the store's files when it is read, after the store has been looked at."""

        def listed(self) -> Any:
            found = list(super().listed())
            store.files.filter(name__in=("a.txt", "b.txt")).delete()
            return iter(found)

    done = sync_files(scope=OPERATOR, store=store, origin=Deleting(tmp_path), label="docs")
    assert [line.partition(": ")[0] for line in done.failed] == ["a.txt → x.txt", "b.txt"]
    assert all("was deleted meanwhile" in line for line in done.failed)
    assert paths(store) == {"c.txt": "c.txt", "d.txt": "d.txt"}
    again = sync(store, tmp_path)
    assert (again["new"], again["failed"]) == (["b.txt", "x.txt"], [])


def test_a_mark_of_a_file_that_was_deleted_meanwhile_is_not_kept(tmp_path: Path) -> None:
    store = StoreFactory()
    deeds = SyncActions(OPERATOR, store, FolderOrigin(tmp_path), "docs")
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
    assert set(paths(store)) == {"a.txt", "sub/b.txt"}


def test_a_document_that_goes_while_the_folder_is_listed_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, a_txt="one", b_txt="two")
    is_file = Path.is_file

    def going(path: Path) -> bool:
        was = is_file(path)
        if path.name == "a.txt" and was:
            path.unlink()
        return was

    monkeypatch.setattr(Path, "is_file", going)
    assert [one.path for one in FolderOrigin(tmp_path).listed()] == ["b.txt"]
