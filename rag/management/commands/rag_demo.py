"""A store to look at: ``rag_demo`` fills it and asks it three questions."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import CommandError

from rag import models
from rag.core.access import Scope
from rag.core.errors import NotFoundError
from rag.management.commands.rag_ask import print_answer
from rag.management.progress import index_with_progress
from rag.management.rag_command import RagCommand, named_store
from rag.services.answers import ask
from rag.services.files import collect_items, upload_file
from rag.services.stores import create_store

FOLDER = Path(__file__).resolve().parents[2] / "demo"
STORE = "demo"


class Command(RagCommand):
    """Migrate, make an admin, fill a demo store and ask it three questions."""

    def handle(self, *args: Any, **options: Any) -> None:
        store = fill_demo(self)
        questions = json.loads((FOLDER / "questions.json").read_text(encoding="utf-8"))
        for question in questions["demo"]:
            answer = ask(question=question["question"], scope=Scope.operator(), stores=[store])
            _say(self, answer.question)
            print_answer(self, answer)
        _say(
            self,
            "Start the server with:  make serve  or  citable serve,  then open http://127.0.0.1:8000/",
        )


def fill_demo(command: RagCommand) -> models.Store:
    """Return the demo store with its documents indexed; the database is migrated before."""
    _say(command, "Preparing the database")
    call_command("migrate", verbosity=0)
    admin = _admin(command)
    try:
        store = named_store(STORE)
    except NotFoundError:
        _say(command, "Preparing the embedding model (once)")
        store = create_store(name="Demo", slug=STORE, owner=admin)
    _say(command, "Indexing the documents of rag/demo/documents")
    ids = []
    for item in collect_items(paths=[str(FOLDER / "documents")]):
        with item.open() as content:
            ids.append(upload_file(store=store, name=item.name, content=content).file.pk)
    if index_with_progress(command, ids):
        raise CommandError("Some demo documents could not be indexed; see above.")
    return store


def _say(command: RagCommand, text: str) -> None:
    command.stdout.write(command.style.MIGRATE_HEADING(f"\n{text}"))


def _admin(command: RagCommand) -> Any:
    users = get_user_model().objects
    admin = users.filter(is_superuser=True).order_by("pk").first()
    if admin is None:
        password = secrets.token_urlsafe(12)
        admin = users.create_superuser("admin", password=password)
        command.stdout.write(f"Admin user: admin   password: {password}   (shown only now)")
    return admin
