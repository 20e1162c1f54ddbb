"""Uploads into a store. In: a file on disk, perhaps a zip. Out: what became of each document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rag import models
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.providers.postgres.db.connections import release_db
from rag.services.files.archives import zip_items
from rag.services.files.replace import file_to_replace, read_as, replace_file
from rag.services.files.upload import clean_name, ingest_file


@dataclass(frozen=True, slots=True)
class Wish:
    """What shall hold for all documents of an upload.

    ``is_replacing``: a document whose name the store has already becomes that file's next revision.
    ``encoding`` is that of texts, empty to tell it from the bytes.
    """

    content_type: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    is_replacing: bool = False
    encoding: str = ""

    @property
    def changes(self) -> dict[str, Any]:
        """Return the fields that were given."""
        given = {"content_type": self.content_type, "metadata": dict(self.metadata)}
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class Taken:
    """``outcome``: taken, replaced, known (the same bytes are there) or refused (see ``error``)."""

    name: str
    outcome: str
    file: models.File | None = None
    error: RAGError | None = None


def take_files(
    *, scope: Scope, store: models.Store, path: Path, name: str, wish: Wish
) -> Iterator[Taken]:
    """Yield what became of the document at ``path``, or of each one in it if it is a zip bundle.

    One that is refused does not stop the others. Not to be called in a transaction.
    """
    try:
        bundle = zip_items(path=path, name=name)
    except RAGError as error:
        yield Taken(name, "refused", error=error)
        return
    documents = [(name, lambda: path.open("rb"))] if bundle is None else None
    for inner, opened in documents or ((item.name, item.open) for item in bundle or ()):
        yield _take(scope, store, inner, opened, wish)


def _take(
    scope: Scope, store: models.Store, name: str, opened: Callable[[], IO[bytes]], wish: Wish
) -> Taken:
    try:
        known = file_to_replace(store=store, name=clean_name(name)) if wish.is_replacing else None
        # Bytes are copied for a while; somebody else can use the connection.
        release_db()
        with opened() as content:
            if known is not None:
                taken = replace_file(scope=scope, file=known, content=content, changes=wish.changes)
            else:
                taken = ingest_file(
                    store=store, name=name, content=content, encoding=wish.encoding, **wish.changes
                )
        if known is not None and wish.encoding:
            read_as(scope=scope, file=taken.file, encoding=wish.encoding)
    except RAGError as error:
        return Taken(name, "refused", error=error)
    outcome = ("taken" if known is None else "replaced") if taken.is_new else "known"
    return Taken(name, outcome, taken.file)
