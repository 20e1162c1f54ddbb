"""Update a store's settings and access groups, validated; files keep their chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

from rag import models
from rag.core.access import Scope
from rag.core.errors import ConflictError, ForbiddenError, InvalidInputError
from rag.core.types import RetrievalSettings

CHANGEABLE = (
    "name",
    "slug",
    "display_name",
    "is_public",
    "max_tokens_per_chunk",
    "max_overlap_tokens",
    "retrieval",
    "vocabulary",
    "cache_ttl_s",
)


def update_store(
    *,
    scope: Scope,
    store: models.Store,
    values: Mapping[str, Any],
    reader_groups: Sequence[Group] | None = None,
    editor_groups: Sequence[Group] | None = None,
) -> None:
    """Save the given fields and groups; None keeps the groups. Files keep their chunks.

    Raises ForbiddenError to who may not edit the store, ConflictError for a name or slug that is
    taken, Django's ValidationError with field errors, and InvalidInputError for settings that no
    search would accept.
    """
    if not models.Store.objects.editable(scope).filter(pk=store.pk).exists():
        raise ForbiddenError("You may read “{name}”, not change it.", name=store.name)
    for name in values:
        if name not in CHANGEABLE:
            raise InvalidInputError("{name} cannot be changed.", name=name)
    RetrievalSettings.from_dict(values.get("retrieval", {}))
    _check_names(store, values)
    for name, value in values.items():
        setattr(store, name, value)
    if values:
        store.clean_fields(exclude=["space", "owner"])
    try:
        with transaction.atomic():
            if values:
                store.save(update_fields=[*values, "updated_at"])
            if reader_groups is not None:
                store.reader_groups.set(reader_groups)
            if editor_groups is not None:
                store.editor_groups.set(editor_groups)
    except IntegrityError:
        # Somebody took the name at this very moment.
        _check_names(store, values)
        raise


def _check_names(store: models.Store, values: Mapping[str, Any]) -> None:
    for field in ("name", "slug"):
        others = models.Store.objects.exclude(pk=store.pk)
        if field in values and others.filter(**{field: values[field]}).exists():
            raise ConflictError("A store “{name}” exists already.", name=values[field])
