"""The deeds of a sync, one document each. In: what is listed. Out: a file whose job waits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from rag import models
from rag.core.access import Scope
from rag.core.errors import ConflictError, NotFoundError
from rag.core.origins import Listed, Origin
from rag.providers.postgres.connections import release_db
from rag.services.delete_files import delete_files
from rag.services.files import update_file
from rag.services.ingest import ingest_file
from rag.services.replace_file import replace_file
from rag.services.sync_plan import KnownFile


@dataclass(frozen=True, slots=True)
class Deeds:
    """What may be done to the files that a store has from an origin, under a label.

    Each raises RAGError or OSError and has done nothing then.
    """

    scope: Scope
    store: models.Store
    origin: Origin
    label: str

    def take(self, one: Listed) -> int:
        """File a new document; raise ConflictError when the store has its bytes from elsewhere."""
        release_db()
        with self.origin.opened(one.path) as content:
            taken = ingest_file(
                store=self.store, name=_name(one.path), content=content,
                metadata=self._placed({}, one),
            )  # fmt: skip
        if taken.is_new:
            return taken.file.pk
        raise ConflictError("The store has these bytes already, as “{name}”.", name=taken.file.name)

    def replace(self, file_id: int, one: Listed) -> int:
        """Give a file the bytes that are at its place now."""
        file = _file(file_id)
        changes = {"metadata": self._placed(file.metadata, one)}
        release_db()
        with self.origin.opened(one.path) as content:
            replace_file(scope=self.scope, file=file, content=content, changes=changes)
        return file_id

    def rename(self, known: KnownFile, one: Listed) -> None:
        """Let a file be at another place; its chunks stay."""
        file = _file(known.file_id)
        update_file(
            scope=self.scope, file=file, name=_name(one.path), content_type=file.content_type,
            metadata=self._placed(file.metadata, one),
        )  # fmt: skip

    def mark(self, file_id: int, one: Listed) -> None:
        """Keep the version under which a file's bytes are known now, so they are not read again."""
        rows = models.File.objects.filter(pk=file_id)
        for metadata in rows.values_list("metadata", flat=True):
            rows.update(metadata=self._placed(metadata, one))

    def delete(self, known: KnownFile) -> None:
        """Delete a file that is no longer there."""
        delete_files(scope=self.scope, file_ids=[known.file_id])

    def _placed(self, metadata: dict[str, Any], one: Listed) -> dict[str, Any]:
        rest = {name: value for name, value in metadata.items() if name != "mark"}
        mark = {"mark": one.mark} if one.mark else {}
        return {**rest, "sync": self.label, "path": one.path, **mark}


def _file(file_id: int) -> models.File:
    file = models.File.objects.light().select_related("store").filter(pk=file_id).first()
    if file is None:
        raise NotFoundError("The file was deleted meanwhile.")
    return file


def _name(path: str) -> str:
    return PurePosixPath(path).name
