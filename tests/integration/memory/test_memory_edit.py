"""Two changes of one memory at once: one is written, the other is told why not."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from agents import models
from agents.chat.memory import storage as memory_edit
from rag.core.access import Scope
from rag.core.errors import ConflictError, InvalidInputError
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


def remembered(user: Any, text: str) -> models.Memory:
    return models.Memory.objects.create(user=user, kind="semantic", subject=text, text=text)


def test_what_is_remembered_while_a_vector_is_made_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = UserFactory()
    row = remembered(user, "red pump")

    def embed(texts: list[str]) -> Any:
        remembered(user, "blue pump")
        return [None] * len(texts), ""

    monkeypatch.setattr(memory_edit, "embed_memories", embed)
    with pytest.raises(ConflictError, match="remembered already"):
        memory_edit.edit_memory(memory=row, text="blue pump")
    assert sorted(models.Memory.objects.values_list("text", flat=True)) == ["blue pump", "red pump"]


def test_what_is_deleted_meanwhile_is_a_conflict_too(monkeypatch: pytest.MonkeyPatch) -> None:
    row = remembered(UserFactory(), "red pump")

    def embed(texts: list[str]) -> Any:
        models.Memory.objects.all().delete()
        return [None] * len(texts), ""

    monkeypatch.setattr(memory_edit, "embed_memories", embed)
    with pytest.raises(ConflictError, match="deleted meanwhile"):
        memory_edit.edit_memory(memory=row, text="green pump")


def test_a_strangers_words_are_no_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_edit, "embed_memories", lambda texts: ([None] * len(texts), ""))
    remembered(UserFactory(), "blue pump")
    row = remembered(UserFactory(), "red pump")
    changed = memory_edit.edit_memory(memory=row, text="blue pump")
    assert (changed.text, changed.subject, changed.is_by_hand) == ("blue pump", "blue pump", True)
    assert models.Memory.objects.readable(Scope(user_id=row.user_id)).count() == 1


@pytest.mark.parametrize("text", ["password: hunter2", "我的身份证是 11010519491231002X"])
def test_a_secret_is_refused_and_those_that_were_kept_are_deleted_by_an_update(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_edit, "embed_memories", lambda texts: ([None] * len(texts), ""))
    user = UserFactory()
    scope = Scope(user_id=user.pk)
    with pytest.raises(InvalidInputError, match="are not remembered"):
        memory_edit.add_fact(scope=scope, text=text)
    row = remembered(user, "red pump")
    with pytest.raises(InvalidInputError, match="are not remembered"):
        memory_edit.edit_memory(memory=row, text=text)
    remembered(user, text)
    models.Memory.objects.create(user=user, kind="episodic", subject="q", text="q", answer=text)
    migration = import_module("agents.migrations.0007_no_secret_memories")
    with connection.schema_editor() as editor:
        migration.delete_secrets(apps, editor)
    assert list(models.Memory.objects.values_list("text", flat=True)) == ["red pump"]
