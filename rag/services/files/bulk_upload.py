"""Bulk upload: every document of a file or zip bundle, each with its own outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from rag import models
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.providers.postgres.db.connections import release_db
from rag.services.files.archives import zip_items
from rag.services.files.replace import find_file_by_name, replace_file, set_encoding
from rag.services.files.upload import clean_path, upload_file


@dataclass(frozen=True, slots=True)
class UploadRequest:
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
class UploadResult:
    """``outcome``: taken, replaced, known (the same bytes are there) or refused (see ``error``)."""

    name: str
    outcome: str
    file: models.File | None = None
    error: RAGError | None = None


def upload_many(
    *, scope: Scope, store: models.Store, path: Path, name: str, request: UploadRequest
) -> Iterator[UploadResult]:
    """Yield what became of the document at ``path``, or of each one in it if it is a zip bundle.

    One that is refused does not stop the others. Not to be called in a transaction.
    """
    try:
        bundle = zip_items(path=path, name=name)
    except RAGError as error:
        yield UploadResult(name, "refused", error=error)
        return
    # What a client calls its file may be a path of its own machine.
    last = PurePosixPath(name.replace("\\", "/")).name
    documents = [(last, lambda: path.open("rb"))] if bundle is None else None
    for inner, opened in documents or ((item.name, item.open) for item in bundle or ()):
        yield _upload_one(scope, store, inner, opened, request)


def _upload_one(
    scope: Scope,
    store: models.Store,
    name: str,
    opened: Callable[[], IO[bytes]],
    request: UploadRequest,
) -> UploadResult:
    try:
        known = (
            find_file_by_name(store=store, name=clean_path(name)) if request.is_replacing else None
        )
        # Bytes are copied for a while; somebody else can use the connection.
        release_db()
        with opened() as content:
            if known is not None:
                uploaded = replace_file(
                    scope=scope, file=known, content=content, changes=request.changes
                )
            else:
                uploaded = upload_file(
                    store=store,
                    name=name,
                    content=content,
                    encoding=request.encoding,
                    **request.changes,
                )
        if known is not None and request.encoding:
            set_encoding(scope=scope, file=uploaded.file, encoding=request.encoding)
    except RAGError as error:
        return UploadResult(name, "refused", error=error)
    outcome = ("taken" if known is None else "replaced") if uploaded.is_new else "known"
    return UploadResult(name, outcome, uploaded.file)
