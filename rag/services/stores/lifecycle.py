"""Create, find, update and delete stores, local or at Gemini."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import EmptyResultSet
from django.core.files.storage import default_storage
from django.db import IntegrityError, transaction
from django.utils.text import slugify

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.derived_texts import redact_derived_texts
from rag.core.errors import (
    ConfigurationError,
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    UnknownNameError,
)
from rag.core.plugins import PLUGINS
from rag.core.types import RetrievalSettings
from rag.providers.postgres.db.connections import fetch_planned, model_columns, row_to_model
from rag.providers.postgres.write.purge import purge_store_traces
from rag.services.gemini import creating_remote_store, delete_remote_store
from rag.services.index import ensure_space
from rag.stages.text.terms import VERSION

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
BACKENDS = tuple(models.Store.Backend.values)
MAX_DISPLAY_NAME = 512
# No slug, name or resource name is longer; so many are looked up by one statement.
MAX_NAME, BATCH = 200, 50


def create_store(*, name: str, embedding_model: str = "", **values: Any) -> models.Store:
    """Return a new store on the space of ``embedding_model`` (empty: the configured one).

    ``values`` are further fields of the store, ``space`` in place of a model among them; with
    ``backend`` gemini it is made there too, and what cannot be filed here does not stay there.
    Raises ConflictError when the name is taken.
    """
    name = name.strip()
    if not name:
        raise InvalidInputError("A store needs a name.")
    if models.Store.objects.filter(name=name).exists():
        raise ConflictError.name_taken(name)
    slug = values.pop("slug", "") or slugify(name, allow_unicode=True)[:100] or "store"
    _check_splitter(values)
    # Whatever comes into it is cut into terms by this version.
    values.setdefault("terms_version", VERSION)
    store = models.Store(name=name, slug=_free_slug(slug), **values)
    store.display_name = store.display_name or name
    # Whether a name is free is known when the row is written.
    store.full_clean(exclude=["space"], validate_unique=False)
    with creating_remote_store(store=store) if store.is_remote else nullcontext():
        _save(store, embedding_model)
    return store


def _check_splitter(values: Mapping[str, Any]) -> None:
    """Raise UnknownNameError for a chunking template that nobody knows; empty is none."""
    if name := values.get("splitter"):
        PLUGINS.get("splitter", name)


def _free_slug(slug: str) -> str:
    """Return the slug, with letters behind it where it is taken.

    Chance letters: a number would tell how many stores there are.
    """
    free = slug
    while models.Store.objects.filter(slug=free).exists():
        free = f"{slug[:90]}-{secrets.token_hex(3)}"
    return free


def _save(store: models.Store, embedding_model: str) -> None:
    try:
        with transaction.atomic():
            if not store.is_remote and store.space is None:
                store.space = ensure_space(embedding_model=embedding_model)
            store.save()
    except IntegrityError as error:
        # Somebody took the name at this very moment.
        raise ConflictError.name_taken(store.name) from error


def find_stores(*, names: Sequence[str], scope: Scope) -> list[models.Store]:
    """Return readable stores by slug, name or resource name, in the order asked for.

    Raises NotFoundError for the first that does not exist or may not be read.
    """
    # Postgres takes neither a NUL nor half of a character, and no store has such a name.
    possible = [n for n in names if len(n) <= MAX_NAME and not _UNSTORABLE.search(n)]
    batches = range(0, len(possible), BATCH)
    found = [
        one for at in batches for one in _stores_named(tuple(possible[at : at + BATCH]), scope)
    ]
    ordered = []
    for name in names:
        match = [s for s in found if name in (s.slug, s.name, s.resource_name)]
        match.sort(key=lambda store: name != store.slug)
        if not match:
            readable = models.Store.objects.readable(scope).values_list("slug", flat=True)
            known = ", ".join(readable[:20]) or "none"
            raise NotFoundError(
                "There is no store “{name}”.", hint="Known: {known}.", name=name, known=known
            )
        ordered.append(match[0])
    return list(dict.fromkeys(ordered))


def _stores_named(names: tuple[str, ...], scope: Scope) -> list[models.Store]:
    try:
        statement = _named_statement(names, scope)
    except EmptyResultSet:
        # No name, or a scope that is limited to no store at all.
        return []
    found, n = [], len(models.Store._meta.concrete_fields)
    for row in fetch_planned(*statement):
        store = row_to_model(models.Store, row[:n])
        if store.space_id is not None:
            store.space = row_to_model(models.EmbeddingSpace, row[n:])
        found.append(store)
    return found


# Each request names its stores; putting the statement together takes longer than running it.
@lru_cache(maxsize=1024)
def _named_statement(names: tuple[str, ...], scope: Scope) -> tuple[str, tuple[Any, ...]]:
    columns = [*model_columns(models.Store), *model_columns(models.EmbeddingSpace, "space__")]
    rows = models.Store.objects.readable(scope).named(names).values_list(*columns)
    return rows.query.sql_with_params()


def delete_store(*, store: models.Store, is_forgotten: bool = False) -> None:
    """Delete a store with its files, chunks, vectors, terms and original bytes.

    One at Gemini is deleted there first: what stands against that is raised, and the store stays
    with the reason, unless ``is_forgotten``, which leaves there what is there.
    """
    if store.is_remote and not is_forgotten:
        delete_remote_store(store=store)
    with transaction.atomic():
        # The store, then its files, then their chunks: as all who change them do.
        list(models.Store.objects.select_for_update().filter(pk=store.pk).values_list("pk"))
        files = models.File.objects.filter(store_id=store.pk).order_by("pk")
        rows = list(files.select_for_update().values_list("pk", "content"))
        chunk_ids = purge_store_traces(store.pk, [pk for pk, _ in rows])
        models.ChunkRevision.objects.filter(chunk__store_id=store.pk).delete()
        # By one statement: Django would read a million chunks first.
        models.Chunk.objects.filter(store_id=store.pk)._raw_delete("default")
        store.delete()
        redact_derived_texts(chunk_ids)
        for path in filter(None, (path for _, path in rows)):
            transaction.on_commit(partial(default_storage.delete, path))


def create_named_store(*, scope: Scope, display_name: str, backend: str = "") -> models.Store:
    """Return a new store of the caller's; an empty ``backend`` is the installation's.

    The same display name twice is two stores. Raises InvalidInputError for an unusable name,
    UnknownNameError for an unknown backend, ForbiddenError to a key that is limited to some stores.
    """
    shown = " ".join(display_name.split())
    if not shown or len(shown) > MAX_DISPLAY_NAME:
        raise InvalidInputError(
            "The display name has {n} characters.",
            hint="Allowed: {low} to {high}.",
            n=len(shown),
            low=1,
            high=MAX_DISPLAY_NAME,
        )
    if backend and backend not in BACKENDS:
        raise UnknownNameError("store backend", backend, BACKENDS)
    if scope.only_store_ids is not None:
        raise ForbiddenError("This key is limited to some stores and cannot make others.")
    values = {"display_name": shown, "backend": backend or default_backend()}
    name = shown[:180]
    try:
        return create_store(name=name, owner_id=scope.user_id, **values)
    except ConflictError:
        # Taken before, or by somebody else at this very moment.
        name = f"{name} · {secrets.token_hex(4)}"
        return create_store(name=name, owner_id=scope.user_id, **values)


def default_backend() -> str:
    """Return the backend of new stores; raise ConfigurationError when it is set to none."""
    backend = conf().default_store_backend
    if backend not in BACKENDS:
        raise ConfigurationError(
            "{setting} is “{value}”.",
            hint="Known: {known}.",
            setting="RAG_DEFAULT_STORE_BACKEND",
            value=backend,
            known=", ".join(BACKENDS),
        )
    return backend


def readable_stores(
    *, scope: Scope, ids: Collection[int] | None = None, limit: int = 50
) -> list[models.Store]:
    """Return the first ``limit`` searchable stores that ``scope`` may read, of ``ids`` or all."""
    found = models.Store.objects.readable(scope).select_related("space")
    found = found.filter(backend=models.Store.Backend.LOCAL)
    if ids is not None:
        found = found.filter(pk__in=ids)
    return list(found.order_by("name")[:limit])


def stores_with_vocabulary(*, stores: Sequence[models.Store], scope: Scope) -> list[models.Store]:
    """Return ``stores`` without those that have a vocabulary and may not be read.

    What a store calls its things is no business of others; one without words gives nothing away,
    so mostly nothing is asked.
    """
    ids = [store.pk for store in stores if store.vocabulary]
    if not ids:
        return list(stores)
    readable = models.Store.objects.readable(scope).filter(pk__in=ids)
    known = set(readable.values_list("pk", flat=True))
    return [store for store in stores if not store.vocabulary or store.pk in known]


CHANGEABLE = (
    "name",
    "slug",
    "display_name",
    "is_public",
    "max_tokens_per_chunk",
    "max_overlap_tokens",
    "splitter",
    "ocr",
    "reads_hidden_cells",
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
    store.require_editable(scope)
    for name in values:
        if name not in CHANGEABLE:
            raise InvalidInputError("{name} cannot be changed.", name=name)
    RetrievalSettings.from_dict(values.get("retrieval", {}))
    _check_splitter(values)
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
            raise ConflictError.name_taken(values[field])
