"""Files of ours by the addresses that we gave out. In: an address and a scope. Out: a path."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from django.core.files.storage import default_storage

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, NotFoundError

_OURS = re.compile(
    r"/?(?:api/files/([0-9]{1,18})/original/?|admin/rag/file/([0-9]{1,18})/original/?"
    r"|files/([0-9]{1,18})|fileSearchStores/[a-z0-9-]{1,60}/documents/([0-9]{1,18}))"
)


def own_path(url: str, scope: Scope, hosts: Sequence[str]) -> Path | None:
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
