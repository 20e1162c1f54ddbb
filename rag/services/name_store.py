"""A store by what people call it, which several may be. In: a display name. Out: the store."""

from __future__ import annotations

import secrets

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.errors import (
    ConfigurationError,
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    UnknownNameError,
)  # fmt: skip
from rag.services.stores import create_store

BACKENDS = tuple(models.Store.Backend.values)
MAX_DISPLAY_NAME = 512


def make_named_store(*, scope: Scope, display_name: str, backend: str = "") -> models.Store:
    """Return a new store of the caller's; an empty ``backend`` is the installation's.

    The same display name twice is two stores. Raises InvalidInputError for an unusable name,
    UnknownNameError for an unknown backend, ForbiddenError to a key that is limited to some stores.
    """
    shown = " ".join(display_name.split())
    if not shown or len(shown) > MAX_DISPLAY_NAME:
        raise InvalidInputError(
            "The display name has {n} characters.", hint="Allowed: {low} to {high}.",
            n=len(shown), low=1, high=MAX_DISPLAY_NAME,
        )  # fmt: skip
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
            "{setting} is “{value}”.", hint="Known: {known}.",
            setting="RAG_DEFAULT_STORE_BACKEND", value=backend, known=", ".join(BACKENDS),
        )  # fmt: skip
    return backend
