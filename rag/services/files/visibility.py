"""Row-level access for lists: filters querysets to the files and chunks that a scope may read.

The rule is ``file_readable_by``'s. Here the stores are looked up first and stand in the statement
by number: of a join the planner cannot tell how many rows it leaves, and reads far too many.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from rag import models
from rag.core.access import Scope


def visible_files(*, scope: Scope, rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return those of the files ``rows`` that ``scope`` may read."""
    return rows.filter(_visible(scope, "", "pk"))


def visible_chunks(*, scope: Scope, rows: QuerySet[Any], prefix: str = "") -> QuerySet[Any]:
    """Return those of ``rows`` whose chunks ``scope`` may read; ``prefix`` leads to the chunk."""
    return rows.filter(_visible(scope, prefix, f"{prefix}file_id"))


def _visible(scope: Scope, prefix: str, file_id: str) -> Q:
    if scope.is_operator and scope.only_store_ids is None:
        return Q()
    stores = models.Store.objects
    readable = list(stores.readable(scope).order_by("pk").values_list("pk", flat=True))
    within = Q(**{f"{prefix}store_id__in": readable})
    own = list(stores.editable(scope).order_by("pk").values_list("pk", flat=True))
    if own == readable:
        # Who may edit reads restricted files too.
        return within
    restrictions = models.File.restricted_to.through.objects.filter(file_id=OuterRef(file_id))
    is_in = Exists(restrictions.filter(group_id__in=scope.group_ids))
    return within & (Q(**{f"{prefix}store_id__in": own}) | ~Exists(restrictions) | is_in)
