"""New bytes for a file: its next revision, while the old one serves; nothing is lost on the way."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.conf import settings as site
from django.core.files.storage import default_storage
from django.db import OperationalError, connections

from rag import models
from rag.core.access import Scope
from rag.core.errors import ConflictError, ForbiddenError, LimitError
from rag.services.files import replace as service
from rag.services.files.replace import find_file_by_name, replace_file
from tests.factories import StoreFactory, UserFactory
from tests.integration.index_desk import assert_whole, live, put, run_job, watch, work

pytestmark = pytest.mark.django_db(transaction=True)
OPERATOR = Scope.operator()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    store = StoreFactory(max_tokens_per_chunk=50, max_overlap_tokens=0)
    watch(store, monkeypatch)
    return store


def replace(file: models.File, content: bytes, scope: Scope = OPERATOR, **changes: Any) -> Any:
    return replace_file(scope=scope, file=file, content=io.BytesIO(content), changes=changes)


def stored(store: models.Store) -> set[str]:
    """Return the paths of all bytes of the store."""
    return {
        f"stores/{store.pk}/{name}" for name in default_storage.listdir(f"stores/{store.pk}")[1]
    }


def test_the_old_revision_serves_until_the_new_one_is_read(store: Any) -> None:
    (file,) = work(put(store, "The old pump."))
    old = live(file)
    taken = replace(file, b"The new pump.", content_type="plan", metadata={"v": 2})
    assert taken.is_new
    row = models.File.objects.get(pk=file.pk)
    assert (row.status, row.revision, row.size) == ("processing", 1, 13)
    assert [chunk.text for chunk in live(row)] == ["The old pump."]
    (row,) = work(row)
    assert (row.status, row.revision) == ("completed", 2)
    assert (row.content_type, row.metadata) == ("plan", {"v": 2})
    assert [chunk.text for chunk in live(row)] == ["The new pump."]
    cited = models.Chunk.objects.get(pk=old[0].pk)
    assert (cited.text, cited.is_live) == ("The old pump.", False)
    assert stored(store) == {row.content.name}
    assert_whole(store)


def test_the_same_bytes_are_no_change(store: Any) -> None:
    (file,) = work(put(store, "The pump."))
    path = file.content.name
    assert not replace(file, b"The pump.", metadata={"a": 1}).is_new
    row = models.File.objects.get(pk=file.pk)
    assert (row.status, row.revision, row.content.name) == ("completed", 1, path)
    assert row.metadata == {"a": 1}
    assert stored(store) == {path}


def test_the_same_bytes_of_a_failed_file_are_tried_again(store: Any) -> None:
    file = run_job(put(store, b" "))
    assert file is not None
    assert file.status == "error"
    assert not replace(file, b" ").is_new
    row = models.File.objects.get(pk=file.pk)
    assert (row.status, row.error) == ("processing", None)


def test_bytes_that_cannot_be_read_leave_the_old_revision(store: Any) -> None:
    (file,) = work(put(store, "The old pump."))
    replace(file, b"  \n")
    (row,) = work(file)
    assert row.status == "error"
    assert [chunk.text for chunk in live(row)] == ["The old pump."]
    replace(row, b"The third pump.")
    (row,) = work(row)
    assert (row.status, row.error) == ("completed", None)
    assert [chunk.text for chunk in live(row)] == ["The third pump."]
    assert_whole(store)


def test_bytes_of_another_file_are_refused_and_removed(store: Any) -> None:
    one, other = work(put(store, "one", "one.txt"), put(store, "other", "other.txt"))
    with pytest.raises(ConflictError, match=r"already, as “other.txt”"):
        replace(one, b"other")
    assert stored(store) == {one.content.name, other.content.name}
    assert [chunk.text for chunk in live(one)] == ["one"]


def test_too_large_a_file_changes_nothing(store: Any, settings: Any) -> None:
    (file,) = work(put(store, "small"))
    settings.RAG = {**site.RAG, "MAX_FILE_BYTES": 10}
    with pytest.raises(LimitError):
        replace(file, b"x" * 11)
    assert stored(store) == {file.content.name}
    assert models.File.objects.get(pk=file.pk).status == "completed"


def test_a_file_that_was_deleted_meanwhile_is_a_conflict(store: Any, monkeypatch: Any) -> None:
    (file,) = work(put(store, "one"))
    before = service.store_bytes

    def late(**values: Any) -> Any:
        models.Chunk.objects.all().delete()
        models.File.objects.all().delete()
        return before(**values)

    monkeypatch.setattr(service, "store_bytes", late)
    with pytest.raises(ConflictError, match="deleted meanwhile"):
        replace(file, b"two")
    assert stored(store) == {file.content.name}


def test_bytes_stay_when_nobody_can_say_whether_the_row_was_written(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = work(put(store, "one"))

    def fail(*_: Any, **__: Any) -> Any:
        raise OperationalError("the connection is gone")

    monkeypatch.setattr(service, "queue_file", fail)
    with pytest.raises(OperationalError):
        replace(file, b"two")
    # The upkeep removes what no row names.
    assert len(stored(store)) == 2
    assert models.File.objects.get(pk=file.pk).content.name == file.content.name


def test_who_may_only_read_replaces_nothing(store: Any) -> None:
    store.is_public = True
    store.save()
    (file,) = work(put(store, "one"))
    for scope in (Scope.anonymous(), Scope(UserFactory().pk)):
        with pytest.raises(ForbiddenError):
            replace(file, b"two", scope)
    assert stored(store) == {file.content.name}


def test_several_at_once_end_with_one_of_them(store: Any) -> None:
    (file,) = work(put(store, "zero"))
    texts = [f"version {n}" for n in range(6)]

    def one(text: str) -> bool:
        try:
            return bool(replace(models.File.objects.get(pk=file.pk), text.encode()).is_new)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(one, texts)) == [True] * 6
    (row,) = work(models.File.objects.get(pk=file.pk))
    assert row.status == "completed"
    assert live(row)[0].text in texts
    assert stored(store) == {row.content.name}
    assert default_storage.open(row.content.name).read().decode() == live(row)[0].text
    assert_whole(store)


def test_the_file_to_replace_is_found_by_its_name(store: Any) -> None:
    one = put(store, "one", "plan.txt")
    put(StoreFactory(), "two", "plan.txt")
    assert find_file_by_name(store=store, name="plan.txt") == one
    assert find_file_by_name(store=store, name="Plan.txt") is None
    put(store, "three", "plan.txt")
    with pytest.raises(ConflictError, match="Several"):
        find_file_by_name(store=store, name="plan.txt")
