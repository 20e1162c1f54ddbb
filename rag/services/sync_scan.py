"""What an origin holds now, each document told apart by its bytes. In: an origin. Out: digests.

Only what could be the same as something else is read: equal bytes have equal sizes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

from rag.conf import conf
from rag.core.errors import RAGError
from rag.core.origins import Listed, Origin
from rag.services.store_bytes import PIECE, too_large
from rag.services.sync_plan import KnownFile


@dataclass(slots=True)
class Scan:
    """Documents by their paths: as listed, with a digest that only equal bytes share, or why not.

    What is ``unread`` is there all the same. ``remarked`` are files, by id, whose bytes are known
    under another mark.
    """

    listed: dict[str, Listed] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    remarked: dict[int, Listed] = field(default_factory=dict)


def scan_origin(*, origin: Origin, known: list[KnownFile]) -> Scan:
    """Return what is there; ``known`` are the files that the store has from it.

    Raises NotFoundError when there is no such origin, and ProviderError when it cannot be told. One
    document that cannot be read, or is over the size limit, is told and stops no other.
    """
    scan = Scan({one.path: one for one in origin.listed()})
    at = {file.path: file for file in known}
    opened: list[Listed] = []
    for path, one in scan.listed.items():
        old = at.get(path)
        if one.size > conf().max_file_bytes:
            scan.unread[path] = str(too_large(name=path))
        elif old is not None and one.mark and (one.mark, one.size) == (old.mark, old.size):
            scan.digests[path] = old.sha256
        else:
            opened.append(one)
    sizes = Counter(one.size for one in opened) + Counter({file.size for file in known})
    for one in opened:
        try:
            is_alone = sizes[one.size] == 1
            scan.digests[one.path] = f"only {one.path}" if is_alone else _hash(origin, one)
        except (RAGError, OSError) as error:
            scan.unread[one.path] = str(error)
            continue
        old = at.get(one.path)
        if old is not None and one.mark != old.mark and scan.digests[one.path] == old.sha256:
            scan.remarked[old.file_id] = one
    return scan


def _hash(origin: Origin, one: Listed) -> str:
    digest = hashlib.sha256()
    with origin.opened(one.path) as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()
