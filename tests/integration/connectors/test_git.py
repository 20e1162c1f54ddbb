"""A store follows a repository at a branch: only what changed is read, and no link is followed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rag.core.errors import ForbiddenError, InvalidInputError, LimitError, ProviderError
from rag.plugins.connectors.git import GitConnector
from rag.services.connectors import run_sync, start_sync
from tests.factories import StoreFactory
from tests.integration.connection_world import connect, errors_of, outcome, places, sync_now
from tests.integration.move_world import OPERATOR

pytestmark = pytest.mark.django_db(transaction=True)
AUTHOR = {
    f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


def git(folder: Path, *words: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **AUTHOR}
    subprocess.run(["git", "-C", str(folder), *words], check=True, env=env, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "change")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "team.git"
    (folder / "docs").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "README.md").write_text("# Pumps\n\nAll about pumps.")
    (folder / "docs" / "水泵.md").write_text("水泵每分钟输送 20 升。")
    (folder / "docs" / "old.md").write_text("The old way.")
    (folder / "code.py").write_text("print('no document')")
    (folder / "docs" / "passwd.md").symlink_to("/etc/passwd")
    commit(folder)
    return folder


def test_a_branch_is_followed_by_what_changed(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StoreFactory()
    connection = connect(
        store, "git", repository=str(repository), link_base="https://host/team/blob/main"
    )
    assert outcome(sync_now(connection))["new"] == ["README.md", "docs/old.md", "docs/水泵.md"]
    assert "is not followed" in errors_of(connection)
    file = store.files.get(name="水泵.md")
    assert file.origin_url.startswith("https://host/team/blob/main/docs/%E6%B0%B4")
    read: list[str] = []
    fetch = GitConnector.fetch
    monkeypatch.setattr(
        GitConnector,
        "fetch",
        lambda self, one, context: read.append(one.path) or fetch(self, one, context),
    )
    assert (sync_now(connection).plan.n_same, read) == (3, [])
    (repository / "README.md").write_text("# Pumps\n\nAll about pumps and valves.")
    (repository / "docs" / "old.md").rename(repository / "docs" / "new.md")
    (repository / "docs" / "水泵.md").unlink()
    commit(repository)
    told = outcome(sync_now(connection))
    assert (told["changed"], told["renamed"], told["deleted"]) == (
        ["README.md"],
        ["docs/new.md"],
        ["docs/水泵.md"],
    )
    assert set(read) == {"README.md", "docs/new.md"}
    assert places(store) == {"README.md": "README.md", "docs/new.md": "new.md"}


def test_folders_patterns_branches_and_bounds(repository: Path, settings: Any) -> None:
    store = StoreFactory()
    git(repository, "checkout", "-q", "-b", "next/1")
    (repository / "docs" / "next.md").write_text("What comes next.")
    commit(repository)
    git(repository, "checkout", "-q", "main")
    options = {"repository": str(repository), "folder": "docs", "branch": "next/1"}
    assert outcome(sync_now(connect(store, "git", **options)))["new"] == [
        "next.md",
        "old.md",
        "水泵.md",
    ]
    with pytest.raises(ProviderError, match="nowhere"):
        sync_now(connect(store, "git", name="x", repository=str(repository), branch="nowhere"))
    for bad in (
        {"branch": "--upload-pack=x"},
        {"repository": "ssh://x/y"},
        {"repository": "https://u:p@x/y"},
    ):
        with pytest.raises(InvalidInputError):
            connect(store, "git", name="x", **{"repository": str(repository), **bad})
    (repository / "big.md").write_bytes(os.urandom(3_000_000))
    commit(repository)
    with pytest.raises(LimitError, match="larger than 1 MB"):
        sync_now(connect(store, "git", name="y", repository=str(repository), max_megabytes=1))
    for where in (str(repository), "http://127.0.0.1:9/team.git"):
        connection = connect(store, "git", name="z", repository=where)
        run = start_sync(scope=OPERATOR, connection=connection, is_queued=False)
        with pytest.raises(ForbiddenError):
            run_sync(run_id=run.pk)
