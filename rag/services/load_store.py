"""A dumped store is read back. In: a file that ``dump_store`` wrote. Out: a new store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection

from rag import models
from rag.core.errors import ConfigurationError, DocumentError
from rag.providers.postgres import stats
from rag.services.dump_format import STORE_FIELDS, read_lines
from rag.services.load_lines import LineLoader
from rag.services.move_fill import fill_space
from rag.services.spaces import build_due_indexes
from rag.services.stores import create_store, delete_store
from rag.services.weights import settle_store

_LATER = ("name", "slug", "is_public")
_TOLD = (*STORE_FIELDS, "space", "has_vectors", "reader_groups", "editor_groups")


def load_store(
    *,
    path: Path,
    name: str = "",
    model: str = "",
    on_line: Callable[[int], None] = lambda n: None,
) -> models.Store:
    """Return a new store with all that a dump holds; ``name`` replaces the one in it.

    It stands on the model of the dump, or on ``model``; vectors are taken over where both are the
    same, else made anew. Nobody but operators sees it before it is whole; when it cannot become so
    it is removed. Raises DocumentError for a damaged dump, ConflictError when the name is taken,
    ConfigurationError when there is no room.
    """
    lines = read_lines(path)
    first = next(lines, None)
    if first is None or first["line"] != "store":
        raise DocumentError("“{name}” holds no store.", name=path.name)
    store = _make(path, first, name, model)
    is_whole = False
    try:
        _load(store, first, lines, on_line)
        is_whole = True
    except (IntegrityError, KeyError, TypeError, ValueError) as error:
        raise _misfit(path, str(error).split("\n")[0]) from error
    except OSError as error:
        raise ConfigurationError(
            "“{name}” could not be loaded: {reason}.",
            hint="Make room for temporary files in {folder}, and load it again.",
            name=path.name, reason=error.strerror or error, folder=gettempdir(),
        ) from error  # fmt: skip
    finally:
        if not is_whole:
            delete_store(store=store)
    return store


def _make(path: Path, first: dict[str, Any], name: str, model: str) -> models.Store:
    if lacking := [key for key in _TOLD if key not in first]:
        raise _misfit(path, ", ".join(lacking))
    values = {key: first[key] for key in STORE_FIELDS if key not in _LATER}
    try:
        return create_store(
            name=name or first["name"], slug="" if name else first["slug"],
            embedding_model=model or first["space"]["model"], **values,
        )  # fmt: skip
    except ValidationError as error:
        raise _misfit(path, "; ".join(error.messages)) from error


def _misfit(path: Path, reason: str) -> DocumentError:
    return DocumentError(
        "“{name}” holds a line that fits nothing: {reason}.", name=path.name, reason=reason
    )


def _load(
    store: models.Store, first: dict[str, Any], lines: Any, on_line: Callable[[int], None]
) -> None:
    assert store.space is not None, "local stores have one"
    own = {"model": store.space.model, "dim": store.space.dim, "version": store.space.version}
    loader = LineLoader(store, has_vectors=first["has_vectors"] and own == first["space"])
    for line in lines:
        loader.take(line)
        on_line(1)
    loader.close()
    stats.roll_up([store.pk])
    settle_store(store_id=store.pk)
    fill_space(space_id=store.live_space_id, store_id=store.pk)
    build_due_indexes(
        space_id=store.live_space_id, concurrently=not connection.in_atomic_block
    )  # fmt: skip
    stats.merge_pending_terms()
    store.refresh_from_db()
    store.is_public = first["is_public"]
    store.save(update_fields=["is_public", "updated_at"])
    for field in ("reader_groups", "editor_groups"):
        groups = [Group.objects.get_or_create(name=name)[0] for name in first[field]]
        getattr(store, field).set(groups)
