"""Viewset of rows that belong to a store: readable rows, editors' permissions."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import Model, QuerySet

from rag.api.http.lookups import find_store, require_editable
from rag.api.http.views import ReadableViews
from rag.api.resources.filters import StoreList

_MAX_ID = 2**63 - 1


class ScopedViews(ReadableViews):
    """A resource by its number, whose list may be narrowed to a store."""

    list_filter: type[StoreList]

    def get_object(self) -> Any:
        """Return the row of the address; what may not be read is not there."""
        pk = int(self.kwargs["pk"])
        return self.readable_row(**({"pk": pk} if pk <= _MAX_ID else {}))

    def editable_object(self) -> Any:
        """Return the row of the address, to be changed; ForbiddenError to who only reads it."""
        row = self.get_object()
        require_editable(cast(Model, row), self.queryset.all().editable(self.scope))  # type: ignore[attr-defined]
        return row

    def further(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows of the store that is asked for; what one may not read is not there."""
        if "store" not in self.filters:
            return rows
        return rows.filter(store=find_store(self.filters["store"], self.scope))
