"""FileSearch port on local stores: the product's own verbs, held to the contract of Gemini's."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

from django.db.models import Sum

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ForbiddenError, NotFoundError
from rag.core.file_search import (
    GroundedAnswer,
    GroundedQuestion,
    RemoteDocument,
    RemoteStore,
    Upload,
)
from rag.services.answers import stream_grounded
from rag.services.answers.file_search import prepare_stores
from rag.services.answers.pipeline import run_job
from rag.services.files import as_remote_document, delete_files, upload_document
from rag.services.stores import create_named_store, delete_store, find_stores

STATES = models.File.Status


@dataclass(frozen=True, slots=True)
class LocalFileSearch:
    """Stores in Postgres, for one caller: what ``scope`` may not read does not exist.

    Uploads wait for the queue, so a worker must run.
    """

    scope: Scope

    def create_store(self, display_name: str) -> RemoteStore:
        """Return a new, empty store of the caller's."""
        store = create_named_store(scope=self.scope, display_name=display_name, backend="local")
        return RemoteStore(store.resource_name, store.display_name, store.created_at)

    def get_store(self, name: str) -> RemoteStore:
        """Return a store with its counts; raise NotFoundError when it is gone."""
        store = self._store(name)
        files = models.File.objects.filter(store=store)
        ended = (STATES.COMPLETED, STATES.ERROR)
        n_active, n_failed = (files.filter(status=status).count() for status in ended)
        return RemoteStore(
            store.resource_name,
            store.display_name,
            store.created_at,
            n_active=n_active,
            n_pending=files.count() - n_active - n_failed,
            n_failed=n_failed,
            size_bytes=files.aggregate(n=Sum("size"))["n"] or 0,
        )

    def list_stores(self) -> list[RemoteStore]:
        """Return the local stores that the caller may read, oldest first."""
        stores = models.Store.objects.readable(self.scope).filter(backend="local")
        values = stores.values_list("resource_name", "display_name", "created_at")
        return [RemoteStore(*row) for row in values.order_by("created_at", "pk")]

    def delete_store(self, name: str) -> None:
        """Delete a store with all its documents; one that is gone is no error."""
        store = models.Store.objects.readable(self.scope).filter(resource_name=name).first()
        if store is None:
            return
        if not models.Store.objects.editable(self.scope).filter(pk=store.pk).exists():
            raise ForbiddenError("You may read “{name}”, not change it.", name=store.name)
        delete_store(store=store)

    def upload(self, store: str, upload: Upload, *, deadline: Deadline) -> RemoteDocument:
        """Return the document once it can be found; what fails or is cancelled is removed."""
        deadline.check()
        row = self._store(store)
        last = models.File.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        try:
            document = upload_document(
                scope=self.scope, store=row, upload=upload, deadline=deadline, is_waiting=True
            )
            if upload.on_progress is not None:
                upload.on_progress(1.0)
        except BaseException:
            # As at Gemini: whatever ends it, Ctrl+C and a failing listener too, leaves no document.
            # Known by its bytes: somebody else may bring one of that name at the same time.
            with upload.path.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            left = row.files.filter(sha256=digest, pk__gt=last).values_list("pk", flat=True)
            delete_files(scope=self.scope, file_ids=list(left))
            raise
        return document

    def list_documents(self, store: str) -> list[RemoteDocument]:
        """Return the documents that the caller may read, oldest first."""
        files = models.File.objects.readable(self.scope).filter(store=self._store(store))
        return [
            as_remote_document(file)
            for file in files.light().select_related("store").order_by("pk")
        ]

    def delete_document(self, name: str) -> None:
        """Delete a document; one that is gone is no error."""
        store, _, number = name.partition("/documents/")
        if number.isascii() and number.isdigit() and len(number) < 19:
            files = models.File.objects.filter(pk=int(number), store__resource_name=store)
            delete_files(scope=self.scope, file_ids=list(files.values_list("pk", flat=True)))

    def answer(self, question: GroundedQuestion, *, deadline: Deadline) -> GroundedAnswer:
        """Return the whole answer of stores."""
        return run_job(partial(prepare_stores, question, self.scope, deadline)).grounded()

    def stream(
        self, question: GroundedQuestion, *, deadline: Deadline
    ) -> AsyncIterator[GroundedAnswer]:
        """Yield pieces as they come; leaving the iteration stops the model."""
        return stream_grounded(partial(prepare_stores, question, self.scope, deadline))

    def _store(self, name: str) -> models.Store:
        store = find_stores(names=[name], scope=self.scope)[0]
        if store.is_remote:
            raise NotFoundError("There is no local store “{name}”.", name=name)
        return store
