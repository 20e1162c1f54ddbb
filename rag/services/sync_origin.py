"""Where an origin lies. In: a path or an address. Out: the origin, ready to be listed."""

from __future__ import annotations

from pathlib import Path

from rag.core.errors import InvalidInputError
from rag.core.origins import Origin
from rag.providers.folder import FolderOrigin
from rag.providers.s3 import S3Origin


def find_origin(*, address: str) -> Origin:
    """Return the folder, or the prefix of an object store if ``address`` is ``s3://bucket/prefix``.

    Raises InvalidInputError for an unusable address, ConfigurationError without keys or package.
    """
    if "://" in address:
        return S3Origin(address)
    if not address.strip():
        raise InvalidInputError("No folder was named.", hint="Name a folder or s3://bucket/prefix.")
    return FolderOrigin(Path(address))
