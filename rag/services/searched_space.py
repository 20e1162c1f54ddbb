"""A store searched in another space than its live one. In: store and space. Out: a context.

For evaluations of a space that is built beside the live one; nobody else sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from rag import models
from rag.core.errors import NotFoundError
from rag.core.ports import StoreTarget
from rag.providers.postgres.spaces import index_name, valid_indexes

_SPACES: ContextVar[dict[int, dict[str, Any]] | None] = ContextVar("searched_spaces", default=None)


@contextmanager
def searched_space(*, store_id: int, space_id: int | None) -> Iterator[None]:
    """Let ``search`` look at the store's vectors in ``space_id`` while the block runs; None: live.

    Only the calling thread or task is meant. Raises NotFoundError for a space that is not there.
    """
    if space_id is None:
        yield
        return
    space = models.EmbeddingSpace.objects.filter(pk=space_id).first()
    if space is None:
        raise NotFoundError("There is no space {id}.", id=space_id)
    place = {
        "space_id": space.pk, "dim": space.dim, "model": space.model,
        "has_hnsw": index_name(space.pk) in valid_indexes(),
    }  # fmt: skip
    token = _SPACES.set({**(_SPACES.get() or {}), store_id: place})
    try:
        yield
    finally:
        _SPACES.reset(token)


def in_searched_space(target: StoreTarget) -> StoreTarget:
    """Return a search's target, moved where ``searched_space`` says so."""
    place = (_SPACES.get() or {}).get(target.store_id)
    if place is None or place["space_id"] == target.space_id:
        return target
    return replace(target, **place, has_partial=False, share=1.0)
