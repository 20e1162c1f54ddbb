"""The demo from nothing to three cited answers, with the fast model and the shipped documents."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command

from rag import models
from rag.management.commands.rag_demo import FOLDER

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
QUESTIONS = json.loads((FOLDER / "questions.json").read_text(encoding="utf-8"))["demo"]


@pytest.fixture(autouse=True)
def _fast_model(fresh_wiring: None, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "EMBEDDING_MODEL": "use:multilingual-v3"}


def run(command: str) -> str:
    said = io.StringIO()
    call_command(command, stdout=said, stderr=said)
    return said.getvalue()


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def test_the_demo_answers_its_questions_and_may_be_run_again() -> None:
    said = run("rag_demo")
    n_documents = len(list((FOLDER / "documents").iterdir()))
    assert f"{n_documents} files with" in said
    assert "make serve" in said
    user = get_user_model().objects.get()
    password = re.search(r"Admin user: admin   password: (\S+)", said)
    assert password is not None
    assert user.check_password(password[1])
    assert set(models.File.objects.values_list("status", flat=True)) == {"completed"}
    rows = list(models.QueryLog.objects.order_by("pk"))
    assert [row.query for row in rows] == [wanted["question"] for wanted in QUESTIONS]
    for wanted, row in zip(QUESTIONS, rows, strict=True):
        fitting = [
            citation
            for citation in row.citations
            if citation["file_name"] in wanted["files"]
            and squeezed(wanted["contains"]) in squeezed(citation["quote"])
        ]
        assert fitting, (wanted["question"], row.citations)
        assert fitting[0]["verdict"] == "verified"
        assert fitting[0]["page"] == wanted["page"]
        assert f"“{fitting[0]['quote']}” — verified" in said
    assert {citation["verdict"] for row in rows for citation in row.citations} == {"verified"}

    again = run("rag_demo")
    assert "password" not in again
    assert models.File.objects.count() == n_documents
    assert models.Store.objects.count() == 1
    assert f"{n_documents} files with" in again
