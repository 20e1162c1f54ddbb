"""The use cases on files and chunks, against the real tables, indexes and queue."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.files.storage import default_storage
from django.db import connection
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.access import Scope
from rag.core.errors import ForbiddenError, InvalidInputError
from rag.services.access.api_keys import scope_of
from rag.services.files.delete import delete_files
from rag.services.files.edit import (
    cancel_files,
    retry_files,
    set_chunks_enabled,
    update_file,
)
from rag.services.files.requeue import requeue_files
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()


def rows(table: str, file: models.File) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table} WHERE file_id = %s", [file.pk])
        return int(cursor.fetchone()[0])


def restricted(file: models.File) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT restricted FROM rag_chunk_vec WHERE file_id = %s", [file.pk])
        return [row[0] for row in cursor.fetchall()]


def test_a_user_is_known_by_id_and_groups() -> None:
    groups = [GroupFactory(), GroupFactory()]
    user = UserFactory(groups=groups)
    assert scope_of(user) == Scope(user.pk, frozenset(group.pk for group in groups))
    boss = UserFactory(is_superuser=True)
    assert scope_of(boss) == Scope(boss.pk, frozenset(), is_operator=True)


def test_the_unknown_and_the_switched_off_are_anonymous() -> None:
    assert scope_of(None) == Scope.anonymous()
    assert scope_of(AnonymousUser()) == Scope.anonymous()
    assert scope_of(UserFactory(is_active=False, is_superuser=True)) == Scope.anonymous()


def test_a_deleted_file_leaves_nothing(django_capture_on_commit_callbacks: Any) -> None:
    file, other = FileFactory(), FileFactory()
    chunk = publish(file, "one", "two")[0]
    publish(other, "three")
    models.ChunkRevision.objects.create(
        chunk=chunk, revision=1, text="x", char_start=0, char_end=1, file_revision=1
    )
    file.restricted_to.add(GroupFactory())
    with django_capture_on_commit_callbacks(execute=True):
        assert delete_files(scope=OPERATOR, file_ids=[file.pk, 999_999_999]) == 1
    for table in ("rag_chunk", "rag_chunk_vec", "rag_chunk_lex", "rag_chunk_draft"):
        assert rows(table, file) == 0, table
    assert not models.ChunkRevision.objects.exists()
    assert not default_storage.exists(file.content.name)
    assert default_storage.exists(other.content.name)
    assert rows("rag_chunk_lex", other) == 1
    file.store.refresh_from_db()
    assert (file.store.n_chunks, file.store.sum_len) == (0, 0)


def test_the_bytes_stay_when_the_deletion_is_rolled_back() -> None:
    file = FileFactory()
    delete_files(scope=OPERATOR, file_ids=[file.pk])
    # The test's transaction is never committed, so nothing may have touched the disk.
    assert default_storage.exists(file.content.name)


def test_only_editable_files_are_deleted() -> None:
    owner = UserFactory()
    mine, foreign = FileFactory(store=StoreFactory(owner=owner)), FileFactory()
    public = FileFactory(store=StoreFactory(is_public=True))
    ids = [mine.pk, foreign.pk, public.pk]
    assert delete_files(scope=scope_of(owner), file_ids=ids) == 1
    assert set(models.File.objects.values_list("pk", flat=True)) == {foreign.pk, public.pk}


def test_chunks_are_switched_only_where_one_may_edit() -> None:
    owner = UserFactory()
    mine = publish(FileFactory(store=StoreFactory(owner=owner)), "one", "two")
    foreign = publish(FileFactory(store=StoreFactory(is_public=True)), "three")
    ids = [chunk.pk for chunk in [*mine, *foreign]]
    assert set_chunks_enabled(scope=scope_of(owner), chunk_ids=ids, enabled=False) == 2
    assert set_chunks_enabled(scope=scope_of(owner), chunk_ids=ids, enabled=False) == 0
    assert [c.enabled for c in models.Chunk.objects.filter(pk__in=ids).order_by("pk")] == [
        False,
        False,
        True,
    ]


def test_a_restriction_reaches_the_index_and_is_lifted_again() -> None:
    group = GroupFactory()
    file = FileFactory()
    publish(file, "text")
    facts = {"name": file.name, "content_type": "document", "metadata": {}}
    update_file(scope=OPERATOR, file=file, restricted_to=[group], **facts)
    assert restricted(file) == [[group.pk]]
    update_file(scope=OPERATOR, file=file, **facts)
    assert restricted(file) == [[group.pk]]
    update_file(scope=OPERATOR, file=file, restricted_to=[], **facts)
    assert restricted(file) == [None]


def test_a_file_is_changed_by_its_editors_only() -> None:
    owner = UserFactory()
    file = FileFactory(store=StoreFactory(owner=owner, is_public=True))
    facts = {"name": "new.txt", "content_type": " ", "metadata": {"a": 1}}
    with pytest.raises(ForbiddenError, match="You may read"):
        update_file(scope=scope_of(UserFactory()), file=file, **facts)
    update_file(scope=scope_of(owner), file=file, **facts)
    file.refresh_from_db()
    assert (file.name, file.content_type, file.metadata) == ("new.txt", "document", {"a": 1})
    with pytest.raises(InvalidInputError, match="no usable name"):
        update_file(scope=scope_of(owner), file=file, **{**facts, "name": "../.."})


def test_files_of_several_stores_are_retried_at_once() -> None:
    files = [FileFactory(status="error"), FileFactory(status="error")]
    foreign = FileFactory()
    ids = [file.pk for file in files]
    assert retry_files(scope=OPERATOR, file_ids=ids) == 2
    assert retry_files(scope=Scope.anonymous(), file_ids=[foreign.pk]) == 0
    jobs = ProcrastinateJob.objects.values_list("lock", flat=True)
    assert set(jobs) == {f"file:{pk}" for pk in ids}


def test_a_waiting_file_is_taken_out_and_may_be_queued_again() -> None:
    file = FileFactory()
    requeue_files(store=file.store)
    assert cancel_files(scope=Scope.anonymous(), file_ids=[file.pk]) == (0, 0)
    assert cancel_files(scope=OPERATOR, file_ids=[file.pk]) == (1, 0)
    file.refresh_from_db()
    assert (file.status, file.progress) == ("idle", {})
    assert retry_files(scope=OPERATOR, file_ids=[file.pk]) == 1
    statuses = sorted(ProcrastinateJob.objects.values_list("status", flat=True))
    assert statuses == ["cancelled", "todo"]


def test_a_running_file_is_left_alone() -> None:
    file = FileFactory()
    requeue_files(store=file.store)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET status = 'doing'")
    assert cancel_files(scope=OPERATOR, file_ids=[file.pk]) == (0, 1)
    file.refresh_from_db()
    assert file.status == "processing"


def test_a_finished_file_cannot_be_cancelled() -> None:
    assert cancel_files(scope=OPERATOR, file_ids=[FileFactory().pk]) == (0, 0)
