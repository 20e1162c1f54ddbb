"""Golden questions and chunks go out a page at a time, in order, and without their files' texts."""

from __future__ import annotations

import csv
import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.services.evaluation import golden_csv as golden_export
from rag.services.evaluation.golden_csv import import_questions
from rag.services.evaluation.golden_questions import TargetSpec, save_question
from rag.services.files import content as chunk_export
from tests.integration.golden_world import TEXTS, golden, golden_store

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()


def test_questions_go_out_a_page_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden_export, "PAGE", 2)
    store, chunks = golden_store()
    for n in range(5):
        golden(store, f"question {n}", chunks[:n])
    lines = golden_export.export_questions(questions=models.GoldenQuestion.objects.all())
    with CaptureQueriesContext(connection) as captured:
        rows = list(csv.DictReader(lines))
    asked = [f"question {n}" for n in range(5) for _ in range(n or 1)]
    assert [row["question"] for row in rows] == asked
    assert [row["passage"] for row in rows if row["question"] == "question 2"] == list(TEXTS[:2])
    assert {row["file"] for row in rows} == {"", "guide.txt"}
    statements = [query["sql"] for query in captured]
    # The numbers, then each page with its targets, files and chunks.
    assert len(statements) == 1 + 3 * 4 and not any("canonical_text" in one for one in statements)


def test_chunks_go_out_a_page_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_export, "PAGE", 2)
    _, chunks = golden_store()
    lines = chunk_export.export_chunks(scope=OPERATOR, file_ids=[chunks[0].file_id])
    rows = [json.loads(line) for line in lines]
    assert [row["text"] for row in rows] == list(TEXTS)
    assert [row["id"] for row in rows] == [chunk.pk for chunk in chunks]


def test_a_target_without_a_place_is_refused_in_words() -> None:
    store, _ = golden_store()
    with pytest.raises(InvalidInputError) as caught:
        save_question(scope=OPERATOR, store=store, query="How long?", wanted=[TargetSpec()])
    assert str(caught.value).startswith("A target names neither a chunk nor a file.")
    assert not store.golden_questions.exists()


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"q" * 140_000, 1),
        (b'question\n"' + b"x" * 140_000, 2),
        (b"question\na\nb," + b"x" * 140_000, 3),
    ],
)
def test_a_cell_that_is_too_long_is_told_with_its_line(data: bytes, line: int) -> None:
    store, _ = golden_store()
    with pytest.raises(InvalidInputError) as caught:
        import_questions(scope=OPERATOR, store=store, data=data, by=None)
    assert caught.value.params == {"line": line, "limit": 131_072}
    assert f"Line {line} of the CSV cannot be read" in str(caught.value)
    assert not store.golden_questions.exists()
