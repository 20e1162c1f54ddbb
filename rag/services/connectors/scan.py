"""Scan of an origin: what a connector lists, with digests that only equal bytes share."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from rag.core.connectors import Connector, OriginDocument
from rag.core.errors import LimitError, ProviderTimeoutError, RAGError
from rag.services.connectors.context import SyncContext
from rag.services.files import file_too_large


@dataclass(slots=True)
class OriginScan:
    """Documents by their paths: as listed, with a digest that only equal bytes share, or why not.

    What is ``unread`` is there all the same. ``remarked`` are files, by id, whose bytes are known
    under another mark or address.
    """

    listed: dict[str, OriginDocument] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    unread: dict[str, RAGError | OSError] = field(default_factory=dict)
    remarked: dict[int, OriginDocument] = field(default_factory=dict)


def scan_origin(*, connector: Connector, context: SyncContext) -> OriginScan:
    """Return what is there, asking for what changed where the connector can tell.

    Raises NotFoundError when there is no such origin, and ProviderError when it cannot be told. One
    document that cannot be read, or is over the size limit, is told and stops no other.
    """
    scan, known = OriginScan(), context.known
    for one in _documents(connector, context):
        scan.listed[one.path] = one
    opened: list[OriginDocument] = []
    for path, one in scan.listed.items():
        old = known.get(path)
        if one.fault is not None:
            scan.unread[path] = one.fault
        elif one.size > context.max_bytes:
            scan.unread[path] = file_too_large(name=path)
        elif one.sha256:
            scan.digests[path] = one.sha256
        elif old is not None and one.mark and (one.mark, one.size) == (old.mark, old.size):
            scan.digests[path] = old.sha256
        else:
            opened.append(one)
    _hash_opened(connector, context, scan, opened)
    for path, digest in scan.digests.items():
        one, old = scan.listed[path], known.get(path)
        if old is not None and digest == old.sha256 and (one.mark, one.url) != (old.mark, old.url):
            scan.remarked[old.file_id] = one
    return scan


def _documents(connector: Connector, context: SyncContext) -> Iterator[OriginDocument]:
    last = context.cursor
    changes = connector.since(context) if last else None
    # A copy may stand behind what is gone, and only a whole list tells it.
    if changes is None or changes.gone:
        context.cursor = last
        yield from _limited(connector.list(context), context)
        return
    changed = {one.path: one for one in changes.documents}
    for path, old in context.known.items():
        if path not in changed:
            yield OriginDocument(path, old.size, old.mark, old.url, sha256=old.sha256)
    yield from changed.values()


def _limited(documents: Iterator[OriginDocument], context: SyncContext) -> Iterator[OriginDocument]:
    n_listed = 0
    try:
        for one in documents:
            if n_listed == context.limit:
                context.end_early(
                    LimitError(
                        "There are more than {limit} documents.",
                        hint="The others are left out; raise the connection's limit.",
                        limit=context.limit,
                    )
                )
                return
            n_listed += 1
            context.tell(n_listed)
            yield one
    except ProviderTimeoutError as error:
        if context.deadline.remaining_s:
            raise
        context.end_early(error)


def _hash_opened(
    connector: Connector, context: SyncContext, scan: OriginScan, opened: list[OriginDocument]
) -> None:
    sizes = Counter(one.size for one in opened)
    sizes += Counter({file.size for file in context.known.values()})
    for one in opened:
        try:
            if sizes[one.size] == 1:
                scan.digests[one.path] = f"only {one.path}"
                continue
            with connector.fetch(one, context) as stream:
                digest = hashlib.file_digest(stream, "sha256")  # type: ignore[arg-type]
            scan.digests[one.path] = digest.hexdigest()
        except (RAGError, OSError) as error:
            scan.unread[one.path] = error
        context.tell(len(scan.listed))
