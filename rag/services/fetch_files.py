"""Files by their addresses, brought to disk. In: addresses and a scope. Out: paths, checked.

Ours are read past HTTP, if the scope may; all others go through the guard. One that is bad is an
error that names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from django.utils.translation import gettext

from rag.conf import conf
from rag.core import errors
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import LimitError, RAGError
from rag.core.file_search import InlineFile
from rag.core.node import FileRef
from rag.providers.bring_url import bring_url
from rag.providers.budgeted_file import Budget
from rag.providers.postgres.connections import release_db
from rag.services.own_files import own_path
from rag.stages.sniff_media import sniff_media

MAX_FILES, N_AT_ONCE = 20, 4


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a file is, before it is fetched; ``path`` when it is one of ours."""

    ref: FileRef
    path: Path | None


@contextmanager
def fetched_files(
    *, refs: Sequence[FileRef], scope: Scope, deadline: Deadline, hosts: Sequence[str] = ()
) -> Iterator[list[InlineFile]]:
    """Give the files in order, on disk until the block ends.

    ``hosts`` are names of this very server, whose download addresses are ours. Raises
    InvalidInputError for an address or kind that is not taken, LimitError over 100 MB each, the
    total or 20 files, NotFoundError for one of ours that ``scope`` may not read, and what the guard
    raises; every error names its file.
    """
    if not refs:
        raise errors.InvalidInputError("No file was given.", hint="Give at least one with an url.")
    if len(refs) > MAX_FILES:
        raise LimitError("{n} files were given.", hint="Allowed: {limit}.",
                         n=len(refs), limit=MAX_FILES)  # fmt: skip
    places = [_place(ref, scope, hosts) for ref in refs]
    release_db()
    budget = Budget(conf().files_total_mb * 1024**2, conf().max_file_bytes)
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
        return _Place(ref, own_path(ref.url, scope, hosts))


def _fetch(place: _Place, target: Path, budget: Budget, deadline: Deadline) -> InlineFile:
    deadline.check()
    path = place.path
    if path is None:
        path = target
        bring_url(
            place.ref.url, path, name=place.ref.name, budget=budget, deadline=deadline,
            allowed=conf().fetch_hosts,
        )  # fmt: skip
    else:
        budget.take(path.stat().st_size)
    _, mime_type = sniff_media(path, place.ref.name)
    return InlineFile(place.ref.name, path, mime_type)


@contextmanager
def _naming(ref: FileRef) -> Iterator[None]:
    """Let an error of the block, kept in its class, name the file."""
    try:
        yield
    except RAGError as error:
        if isinstance(error, errors.CancelledError):
            raise
        kind = next(one for one in _KINDS if isinstance(error, one))
        reason = error.localized(gettext)
        raise kind("“{name}”: {reason}", name=ref.name, reason=reason) from error


_KINDS: tuple[type[RAGError], ...] = (
    LimitError, errors.NotFoundError, errors.ForbiddenError, errors.ProviderTimeoutError,
    errors.ProviderError, errors.DocumentError, errors.ConfigurationError,
    errors.InvalidInputError, RAGError,
)  # fmt: skip
