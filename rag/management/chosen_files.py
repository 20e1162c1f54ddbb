"""File selection of a command: names and a metadata filter to ids, None for all."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q

from rag import models
from rag.core.errors import NotFoundError
from rag.services.search import files_matching_metadata


def chosen_files(*, store: models.Store, names: Sequence[str], where: str = "") -> list[int] | None:
    """Return the ids of the named files that pass a metadata filter; None where neither is given.

    Raises NotFoundError for a name that no file bears, InvalidInputError for a filter that cannot
    be read.
    """
    ids: list[int] | None = None
    for name in names:
        is_id = Q(pk=int(name)) if name.isdecimal() else Q()
        found = store.files.filter(Q(name=name) | is_id if is_id else Q(name=name))
        if not found.exists():
            raise NotFoundError(
                "The store “{store}” has no file “{name}”.",
                hint="Give its name or id.",
                store=store.slug,
                name=name,
            )
        ids = [*(ids or ()), *found.values_list("pk", flat=True)]
    filtered = files_matching_metadata(text=where, stores=[store])
    if filtered is None:
        return ids
    kept = set(filtered.file_ids)
    return sorted(kept if ids is None else kept & set(ids))
