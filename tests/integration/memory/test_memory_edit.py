"""Two changes of one memory at once: one is written, the other is told why not."""

from __future__ import annotations

from typing import Any

import pytest

from agents import models
from agents.chat.memory import storage as memory_edit
from rag.core.access import Scope
from rag.core.errors import ConflictError
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
