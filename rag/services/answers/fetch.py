"""Guarded fetch of files by URL: onto disk for a question, or as passages of one page.

Our own download URLs are read from storage if the scope may; all others pass the SSRF guard. A bad
file is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from django.core.files.storage import default_storage
from django.utils.translation import gettext

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import (
    CancelledError,
    InvalidInputError,
    LimitError,
    NotFoundError,
    RAGError,
    UnknownNameError,
)
from rag.core.file_search import InlineFile
from rag.core.hits import Hit
from rag.core.rag_node import FileRef
from rag.providers.http.download import MB, ByteBudget, download_url
from rag.providers.postgres.db.connections import release_db
from rag.services.answers.attached_files import file_context
from rag.stages.detect.mime_type import sniff_media

_OURS = re.compile(
    r"/?(?:api/files/([0-9]{1,18})/original/?|admin/rag/file/([0-9]{1,18})/original/?"
    r"|files/([0-9]{1,18})|fileSearchStores/[a-z0-9-]{1,60}/documents/([0-9]{1,18}))"
)


def own_file_path(url: str, scope: Scope, hosts: Sequence[str]) -> Path | None:
    """Return where the bytes of one of our files lie; None for an address that is not ours.

    Ours are download addresses (without a host, or with one of ``hosts``), ``files/ID`` and
    resource names of local documents. Raises NotFoundError for a file that ``scope`` may not read.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidInputError("The address cannot be read: {reason}.", reason=error) from error
    if parts.scheme in ("http", "https"):
        if parts.netloc.lower() not in {host.lower() for host in hosts}:
            return None
    elif parts.scheme or parts.netloc:
        return None
    match = _OURS.fullmatch(parts.path)
    if match is None:
        if parts.scheme:
            return None
        raise NotFoundError("There is no file at this address.", hint="Check the url.")
    number = next(filter(None, match.groups()))
    file = models.File.objects.readable(scope).light().filter(pk=int(number)).first()
    if file is None or not default_storage.exists(str(file.content.name)):
        raise NotFoundError("There is no {kind} {id}.", kind="file", id=number)
    return Path(default_storage.path(str(file.content.name)))


MAX_FILES, N_AT_ONCE = 20, 4


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a file is, before it is fetched; ``path`` when it is one of ours."""

    ref: FileRef
    path: Path | None


@contextmanager
def fetch_files(
    *, refs: Sequence[FileRef], scope: Scope, deadline: Deadline, hosts: Sequence[str] = ()
) -> Iterator[list[InlineFile]]:
    """Give the files in order, on disk until the block ends.

    ``hosts`` are names of this very server, whose download addresses are ours. Raises
    InvalidInputError for an address or kind that is not taken, LimitError over 100 MB each, the
    total or 20 files, NotFoundError for one of ours that ``scope`` may not read, and what the guard
    raises; every error names its file.
    """
    if not refs:
        raise InvalidInputError("No file was given.", hint="Give at least one with an url.")
    if len(refs) > MAX_FILES:
        raise LimitError(
            "{n} files were given.", hint="Allowed: {limit}.", n=len(refs), limit=MAX_FILES
        )
    places = [_place(ref, scope, hosts) for ref in refs]
    release_db()
    budget = ByteBudget(conf().files_total_mb * 1024**2, conf().max_file_bytes)
    with (
        TemporaryDirectory(prefix="citable-files-") as folder,
        ThreadPoolExecutor(N_AT_ONCE, "fetch") as pool,
    ):
        jobs = [
            pool.submit(_fetch, place, Path(folder) / str(number), budget, deadline)
            for number, place in enumerate(places)
        ]
        wait(jobs, return_when=FIRST_EXCEPTION)
        for place, job in zip(places, jobs, strict=True):
            if job.done() and job.exception():
                for other in jobs:
                    other.cancel()
                # What still runs is of no use to anybody.
                deadline.cancel()
                with _naming(place.ref):
                    job.result()
        yield [job.result() for job in jobs]


def _place(ref: FileRef, scope: Scope, hosts: Sequence[str]) -> _Place:
    with _naming(ref):
        return _Place(ref, own_file_path(ref.url, scope, hosts))


def _fetch(place: _Place, target: Path, budget: ByteBudget, deadline: Deadline) -> InlineFile:
    deadline.check()
    path = _brought(place, target, budget, deadline)
    _, mime_type = sniff_media(path, place.ref.name)
    return InlineFile(place.ref.name, path, mime_type)


def _brought(place: _Place, target: Path, budget: ByteBudget, deadline: Deadline) -> Path:
    """Return where the file lies: our own where it is stored, any other at ``target`` now."""
    if place.path is not None:
        budget.take(place.path.stat().st_size)
        return place.path
    ref, allowed = place.ref, conf().fetch_hosts
    download_url(ref.url, target, name=ref.name, budget=budget, deadline=deadline, allowed=allowed)
    return target


@contextmanager
def _naming(ref: FileRef) -> Iterator[None]:
    """Let an error of the block, kept in its class, name the file."""
    try:
        yield
    except RAGError as error:
        if isinstance(error, CancelledError):
            raise
        # A name that nobody knows is an error of another signature.
        kind = InvalidInputError if isinstance(error, UnknownNameError) else type(error)
        reason = error.localized(gettext)
        raise kind("“{name}”: {reason}", name=ref.name, reason=reason) from error


MAX_MB = 20


def fetch_page(
    *, url: str, name: str, question: str, scope: Scope, deadline: Deadline
) -> tuple[Hit, ...]:
    """Return the passages of a document that bear on a question, or all of a short one.

    ``name`` is what it is called in errors, and its ending may tell its kind. Raises
    NotFoundError for a file of ours that ``scope`` may not read, InvalidInputError for an address
    that is not taken, LimitError over 20 MB, DocumentError for what has no text, and what the
    guard raises.
    """
    place = _Place(FileRef(name, url), own_file_path(url, scope, ()))
    release_db()
    with TemporaryDirectory(prefix="citable-page-") as folder:
        budget = ByteBudget(MAX_MB * MB, MAX_MB * MB)
        path = _brought(place, Path(folder) / "page", budget, deadline)
        files = [InlineFile(name, path, "")]
        context = file_context(question=question, files=files, deadline=deadline)
    return tuple(passage.hit for passage in context.passages)
