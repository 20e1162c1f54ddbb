"""Suggested questions: made of headings, of readable files alone, in the reader's language."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group

from rag import models
from rag.core.access import Scope
from rag.services.access import scope_of
from rag.services.stores import suggest_questions
from tests.factories import FileFactory, StoreFactory, UserFactory, publish


def add(store: models.Store, name: str, *headings: list[str]) -> models.File:
    file: models.File = FileFactory(store=store, name=name)
    for chunk, path in zip(publish(file, *map(str, headings)), headings, strict=True):
        models.Chunk.objects.filter(pk=chunk.pk).update(
            heading_path=path, token_count=len(headings)
        )
    models.File.objects.filter(pk=file.pk).update(n_chunks=len(headings))
    return file


def suggested(*stores: Any, scope: Scope | None = None, **how: Any) -> list[str]:
    given = {"is_chinese": False, "limit": 4, **how}
    return suggest_questions(stores=stores, scope=scope or Scope.operator(), **given)


def test_sections_of_several_files_come_in_turn(db: None) -> None:
    store = StoreFactory()
    add(store, "guide.md", ["Guide", "1. Booking"], ["Guide", "2. Prices"])
    add(store, "手册.docx", ["第一章 班次"], ["第二章 年假"])
    add(store, "slides.pptx", ["Only one"])
    add(store, "plain.txt", [])
    english = suggested(store, limit=9)
    assert english[:4] == [
        "Summarize “plain.txt”",
        "Summarize “slides.pptx”",
        "What does “guide.md” say about “Booking”?",
        "What does “guide.md” say about “Prices”?",
    ]
    assert suggested(store, is_chinese=True, limit=1) == ["“手册.docx”里关于“班次”是怎么说的？"]


def test_only_readable_files_are_named(db: None) -> None:
    group = Group.objects.create(name="few")
    store = StoreFactory(is_public=True)
    add(store, "open.md", ["Open"])
    hidden = add(store, "hidden.md", ["Hidden"])
    hidden.restricted_to.add(group)
    scope = scope_of(UserFactory())
    assert suggested(store, scope=scope) == ["Summarize “open.md”"]


@pytest.mark.parametrize("heading", ["", "7", "x" * 41, "1.2 — 3"])
def test_a_heading_that_says_nothing_makes_no_question(db: None, heading: str) -> None:
    store = StoreFactory()
    add(store, "a.md", ["Title", heading], ["Other", heading])
    assert suggested(store) == ["Summarize “a.md”"]
