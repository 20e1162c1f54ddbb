"""A file whose encoding was told wrongly. In: the right one. Out: a job that reads it anew."""

from __future__ import annotations

from rag import models
from rag.core.access import Scope
from rag.core.errors import ForbiddenError
from rag.services.reindex import reindex
from rag.stages.encodings import encoding_name


def read_as(*, scope: Scope, file: models.File, encoding: str) -> bool:
    """Keep the encoding to read a text by, empty to tell it from the bytes; queue if it is new.

    Return whether it is. The present chunks serve until the file is read. Raises InvalidInputError
    for an unknown encoding and ForbiddenError to who may not edit the store.
    """
    codec = encoding_name(encoding)
    files = models.File.objects.editable(scope).filter(pk=file.pk)
    if not files.exists():
        raise ForbiddenError("You may read “{name}”, not change it.", name=file.name)
    if not files.exclude(encoding_override=codec).update(encoding_override=codec):
        return False
    file.encoding_override = codec
    reindex(store=file.store, file_ids=[file.pk])
    return True
